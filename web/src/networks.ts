/** The networks of policies: tanh layers with one head, or with two for a Beta distribution. Only the mode is needed. */

import type { Numbers, StoredLayer, StoredNetwork } from "./data";

type Values = Float32Array | Float64Array;

interface Layer {
  weight: Values; // (inputs, outputs), row by row
  bias: Values;
}

export class Network {
  private readonly layers: Layer[];
  private readonly heads: Layer[];
  private readonly layerNorm: boolean;

  constructor(stored: StoredNetwork, numbers: Numbers) {
    const read = (layer: StoredLayer): Layer => ({ weight: numbers.read(layer.weight), bias: numbers.read(layer.bias) });
    this.layers = stored.layers.map(read);
    this.heads = stored.heads.map(read);
    this.layerNorm = stored.layer_norm;
  }

  /** The mode of the policy's distribution, in [-1, 1]. */
  mode(inputs: Float64Array): Float64Array {
    let x = inputs;
    for (const layer of this.layers) {
      x = dense(layer, x);
      if (this.layerNorm) normalise(x);
      for (let j = 0; j < x.length; j++) x[j] = Math.tanh(x[j]);
    }
    const raw = this.heads.map((head) => dense(head, x));
    if (raw.length === 1) return raw[0].map(Math.tanh);
    // The mode of a Beta distribution on [-1, 1] whose parameters are softplus(raw) + 1.05.
    const [above, below] = raw.map((values) => values.map((value) => softplus(value) + 0.05));
    return above.map((value, j) => (value - below[j]) / (value + below[j]));
  }
}

function dense(layer: Layer, x: Float64Array): Float64Array {
  const { weight, bias } = layer;
  const outputs = bias.length;
  const y = Float64Array.from(bias);
  for (let i = 0, at = 0; i < x.length; i++, at += outputs) {
    const value = x[i];
    if (value !== 0) for (let j = 0; j < outputs; j++) y[j] += value * weight[at + j];
  }
  return y;
}

function normalise(x: Float64Array): void {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  for (let j = 0; j < x.length; j++) x[j] = (x[j] - mean) * scale;
}

function softplus(x: number): number {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
}

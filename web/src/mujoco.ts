/** MuJoCo's WebAssembly build, out of the page itself. */

import loadMujoco, { type MainModule } from "@mujoco/mujoco";
import { bytes } from "./data";

export type Mujoco = MainModule;

/** The engine from base64 of its gzipped WebAssembly. */
export async function loadPhysics(text: string): Promise<Mujoco> {
  const packed = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const wasmBinary = await new Response(packed).arrayBuffer();
  return loadMujoco({ wasmBinary, print: () => {}, printErr: () => {} });
}

/** What the page is given: the types of its JSON, and numbers out of base64. */

/** An array of the page's table, as base64 of little-endian float32 or float64. */
export interface Stored {
  array: number;
  type: "float32" | "float64";
}

export interface StoredLayer {
  weight: Stored;
  bias: Stored;
}

export interface StoredNetwork {
  layer_norm: boolean;
  layers: StoredLayer[];
  heads: StoredLayer[];
}

export interface StoredFrame {
  kind: "world" | "goal";
  mean: Stored;
  std: Stored;
  keep: Stored;
  goal_std?: Stored;
  angles?: Stored;
  renamings?: number[][];
  action_from?: number[][];
  action_sign?: number[][];
  pairs?: [number, number, number][];
  has_angles?: boolean;
  /** Where the angle of the heading is, if it is not in a quaternion. */
  heading?: number | null;
}

export interface StoredSkillPolicy extends StoredNetwork {
  mean: Stored;
  std: Stored;
  keep: Stored;
  distortion: "none" | "squeeze_y";
}

export interface StoredLinearizer extends StoredNetwork {
  goal_dim: number;
  frame: StoredFrame;
}

export interface StoredAgent {
  kind: "skills" | "linearizer";
  env: string;
  state_dim: number;
  action_dim: number;
  location_dims: number[];
  macro_length: number;
  skill_policy: StoredSkillPolicy | null;
  linearizer: StoredLinearizer | null;
}

export interface PointData {
  kind: "point";
  step_size: number;
  start_range: number;
  dt: number;
}

/** From and to, of a D'Kitty. */
export type Ranges = Record<
  "damping" | "friction_loss" | "gain" | "slide" | "spin" | "roll" | "mass" | "height",
  [number, number]
>;

export interface RobotData {
  kind: "robot";
  xml: string;
  /** Arrays of the model that are not as the file has them: masses, friction and the like. */
  fields: Record<string, Stored>;
  /** Where each episode's dynamics are drawn from; null: they are always the same. */
  ranges: Ranges | null;
  frame_skip: number;
  dt: number;
  num_positions: number;
  qpos_noise: number;
  qvel_noise: number;
  qvel_noise_is_normal: boolean;
  velocity_clip: number | null;
  ctrl_scale: number[];
  ctrl_offset: number[];
  /** A servo's target runs ahead of its joint by no more than this (rad); null: there are no servos. */
  max_lead: number | null;
  fallen: "upside_down" | "lying" | "tipped" | "never";
  healthy_height: [number, number] | null;
  /** An episode ends where a value of qpos and qvel (its number) leaves a range; null is no end. */
  healthy?: [number, number | null, number | null][];
  /** The qpos that episodes start from; null: the model's own. */
  start?: number[] | null;
  /** The values of qpos and qvel that an observation has; null: all. */
  shown?: number[] | null;
  camera: [number, number, number];
  square: number;
}

export interface SpaceData {
  kind: "gaussian" | "sphere" | "one_hot" | "goal";
  dim: number;
  /** The dimensions that the pad sets. */
  pad: number[];
  /** Values are chosen from [-limit, limit]. */
  limit: number;
  /** What a value is called before its number: z for latents, g for goals. */
  sign: string;
}

export interface RunData {
  name: string;
  title: string;
  env: string;
  trained_with: string;
  agent: StoredAgent;
  space: SpaceData;
  body: PointData | RobotData;
  notes: string[];
}

export interface PageData {
  arrays: string[];
  colours: { scale: number; range: number; radius: number };
  runs: RunData[];
}

/** Bytes of base64 text. */
export function bytes(text: string): Uint8Array<ArrayBuffer> {
  const raw = atob(text);
  const made = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) made[i] = raw.charCodeAt(i);
  return made;
}

/** Numbers of the page's table. Runs that share an array share its text. */
export class Numbers {
  constructor(private readonly table: string[]) {}

  read(stored: Stored): Float32Array | Float64Array {
    const { buffer } = bytes(this.table[stored.array]);
    return stored.type === "float32" ? new Float32Array(buffer) : new Float64Array(buffer);
  }
}

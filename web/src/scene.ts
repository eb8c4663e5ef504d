/** The picture in 3-D: a body on a checkered floor, its shadow, its path, and a camera that goes with it. */

import * as THREE from "three";
import { Robot } from "./body";
import type { Simulation } from "./simulation";
import type { Trail } from "./trail";

// Colours are drawn as they are: their conversion is what takes longest without a graphics card.
THREE.ColorManagement.enabled = false;

const MOST_PIECES = 6000;
const LIGHT = new THREE.Vector3(-0.35, -0.5, 1); // where it comes from
const POINT = { camera: [90, -50, 3], square: 0.5, radius: 0.07 } as const;
const HIDDEN_GROUP = 3;

/** Draws what never changes its shape; positions come from the simulation. */
export class Scene {
  follow = true;
  private readonly renderer: THREE.WebGLRenderer;
  private readonly scene = new THREE.Scene();
  private readonly camera = new THREE.PerspectiveCamera(40, 1.6, 0.02, 400);
  private readonly floor: THREE.Mesh;
  private readonly ribbon: Ribbon;
  private readonly parts: Part[];
  private readonly ground: Ground | null = null;
  private readonly target = new THREE.Vector3();
  private readonly square: number;
  private azimuth: number;
  private elevation: number;
  private distance: number;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly simulation: Simulation,
    private readonly trail: Trail,
    software: boolean,
  ) {
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: !software, stencil: true });
    this.renderer.outputColorSpace = THREE.LinearSRGBColorSpace;
    const { body } = simulation;
    const [camera, square] = body instanceof Robot ? [body.about.camera, body.about.square] : [POINT.camera, POINT.square];
    [this.azimuth, this.elevation, this.distance] = camera;
    this.square = square;
    this.parts = body instanceof Robot ? robotParts(body) : [pointPart(simulation)];
    for (const part of this.parts) this.scene.add(part.mesh, part.shadow);
    this.floor = makeFloor(square, software);
    this.ribbon = new Ribbon(square / 40);
    this.scene.add(this.floor, this.ribbon.mesh);
    if (body instanceof Robot && body.model.nhfield > 0) {
      this.ground = new Ground(body, (this.floor.material as THREE.MeshBasicMaterial).map!, square);
      this.scene.add(this.ground.mesh);
      // The floor shows beside the ground only; path and shadow lie on top of it.
      for (const part of this.parts) part.lift = this.ground.top;
      this.ribbon.mesh.position.z = this.ground.top;
    }
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x8a8478, 2.2));
    const sun = new THREE.DirectionalLight(0xffffff, 1.3);
    sun.position.copy(LIGHT);
    this.scene.add(sun);
    this.target.z = body instanceof Robot ? 0.5 * this.parts[0].height() : 0;
    this.camera.up.set(0, 0, 1);
    this.paint();
    this.orbit();
  }

  /** The colours of the surroundings, light or dark. */
  paint(dark = window.matchMedia("(prefers-color-scheme: dark)").matches): void {
    const sky = new THREE.Color(dark ? 0x1d2329 : 0xe9eef3);
    this.scene.background = sky;
    const reach = this.square * 14;
    this.scene.fog = new THREE.Fog(sky, Math.max(reach, this.distance * 1.5), Math.max(reach, this.distance) * 2.6);
    (this.floor.material as THREE.MeshBasicMaterial).color.set(dark ? 0x59636d : 0xffffff);
    this.ground?.paint(dark);
  }

  /** Fit the drawing to the element, with so many pixels for one of the page. */
  resize(ratio: number): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
  }

  draw(seconds: number): void {
    const { simulation } = this;
    if (simulation.body instanceof Robot) simulation.body.pose();
    for (const part of this.parts) part.place();
    this.ribbon.show(this.trail);
    this.ground?.show(simulation.resets);
    const [x, y = 0] = simulation.location();
    if (this.follow) {
      const far = Math.hypot(x - this.target.x, y - this.target.y) > 10 * this.square;
      const near = far ? 1 : 1 - Math.exp(-6 * seconds);
      this.target.x += near * (x - this.target.x);
      this.target.y += near * (y - this.target.y);
    }
    // The floor has no end: it goes along in steps of its pattern.
    const pattern = 2 * this.square;
    this.floor.position.x = pattern * Math.round(this.target.x / pattern);
    this.floor.position.y = pattern * Math.round(this.target.y / pattern);
    this.floor.position.z = this.ground?.mesh.visible ? -0.004 : 0;
    this.aim();
    this.renderer.render(this.scene, this.camera);
  }

  private aim(): void {
    const azimuth = THREE.MathUtils.degToRad(this.azimuth);
    const elevation = THREE.MathUtils.degToRad(this.elevation);
    const flat = Math.cos(elevation) * this.distance;
    this.camera.position.set(
      this.target.x - flat * Math.cos(azimuth),
      this.target.y - flat * Math.sin(azimuth),
      this.target.z - Math.sin(elevation) * this.distance,
    );
    this.camera.lookAt(this.target);
  }

  /** Turn by degrees, and come nearer by a factor. */
  turn(azimuth: number, elevation: number, nearer = 1): void {
    this.azimuth += azimuth;
    this.elevation = Math.min(Math.max(this.elevation + elevation, -89), -3);
    this.distance = Math.min(Math.max(this.distance / nearer, this.square), 60 * this.square);
  }

  /** A drag turns, the wheel and two fingers zoom, so do arrow keys with plus and minus. */
  private orbit(): void {
    const fingers = new Map<number, { x: number; y: number }>();
    const spread = () => {
      const [a, b] = [...fingers.values()];
      return Math.hypot(a.x - b.x, a.y - b.y);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const apart = fingers.size === 2 ? spread() : 0;
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (fingers.size === 2) this.turn(0, 0, spread() / Math.max(apart, 1));
      else this.turn(0.4 * (before.x - event.clientX), 0.3 * (before.y - event.clientY));
    });
    for (const end of ["pointerup", "pointercancel"] as const) {
      this.canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
    }
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.turn(0, 0, Math.exp(-event.deltaY / 600));
      },
      { passive: false },
    );
    const keys: Record<string, [number, number, number]> = {
      ArrowLeft: [6, 0, 1], ArrowRight: [-6, 0, 1], ArrowUp: [0, -4, 1], ArrowDown: [0, 4, 1],
      "+": [0, 0, 1.15], "=": [0, 0, 1.15], "-": [0, 0, 1 / 1.15],
    };
    this.canvas.addEventListener("keydown", (event) => {
      const move = keys[event.key];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.turn(...move);
    });
  }
}

/** Something solid, and its shadow on the floor. */
interface Part {
  mesh: THREE.Mesh;
  shadow: THREE.Mesh;
  /** How far above the floor its shadow lies. */
  lift: number;
  place(): void;
  height(): number;
}

// Flattens onto the floor along the light.
const FLATTEN = new THREE.Matrix4().set(
  1, 0, -LIGHT.x / LIGHT.z, 0,
  0, 1, -LIGHT.y / LIGHT.z, 0,
  0, 0, 0, 0.002,
  0, 0, 0, 1,
); // prettier-ignore

const SHADE = new THREE.MeshBasicMaterial({
  color: 0x10141a, transparent: true, opacity: 0.26, depthWrite: false, fog: false,
  // Each pixel is shaded once, however many parts lie over it.
  stencilWrite: true, stencilRef: 1, stencilFunc: THREE.NotEqualStencilFunc, stencilZPass: THREE.ReplaceStencilOp,
});

function makePart(geometry: THREE.BufferGeometry, colour: THREE.Color, locate: (matrix: THREE.Matrix4) => void): Part {
  const mesh = new THREE.Mesh(geometry, new THREE.MeshLambertMaterial({ color: colour }));
  const shadow = new THREE.Mesh(geometry, SHADE);
  for (const one of [mesh, shadow]) {
    one.matrixAutoUpdate = false;
    one.frustumCulled = false;
  }
  shadow.renderOrder = 2;
  const part: Part = {
    mesh,
    shadow,
    lift: 0,
    place: () => {
      locate(mesh.matrix);
      shadow.matrix.multiplyMatrices(FLATTEN, mesh.matrix);
      shadow.matrix.elements[14] += part.lift;
    },
    height: () => mesh.matrix.elements[14],
  };
  part.place();
  return part;
}

function robotParts(robot: Robot): Part[] {
  const { model, data } = robot;
  const parts: Part[] = [];
  robot.pose();
  for (let i = 0; i < model.ngeom; i++) {
    const size = (model.geom_size as Float64Array).slice(3 * i, 3 * i + 3);
    const geometry = shape(model.geom_type[i], size);
    const [r, g, b, alpha] = (model.geom_rgba as Float32Array).slice(4 * i, 4 * i + 4);
    if (!geometry || alpha === 0 || model.geom_group[i] === HIDDEN_GROUP) continue;
    const colour = new THREE.Color(r, g, b);
    parts.push(
      makePart(geometry, colour, (matrix) => {
        const [x, y, z] = (data.geom_xpos as Float64Array).subarray(3 * i, 3 * i + 3);
        const m = (data.geom_xmat as Float64Array).subarray(9 * i, 9 * i + 9);
        matrix.set(m[0], m[1], m[2], x, m[3], m[4], m[5], y, m[6], m[7], m[8], z, 0, 0, 0, 1);
      }),
    );
  }
  return parts;
}

/** MuJoCo's geoms, whose axis is z; those without an end or of data have none. */
function shape(type: number, [a, b, c]: Float64Array): THREE.BufferGeometry | null {
  switch (type) {
    case 2:
      return new THREE.SphereGeometry(a, 18, 12);
    case 3:
      return new THREE.CapsuleGeometry(a, 2 * b, 5, 12).rotateX(Math.PI / 2);
    case 4:
      return new THREE.SphereGeometry(1, 18, 12).scale(a, b, c);
    case 5:
      return new THREE.CylinderGeometry(a, a, 2 * b, 16).rotateX(Math.PI / 2);
    case 6:
      return new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
    default:
      return null;
  }
}

function pointPart(simulation: Simulation): Part {
  const ball = new THREE.SphereGeometry(POINT.radius, 20, 14);
  return makePart(ball, new THREE.Color(0x2f6fc4), (matrix) => {
    const [x, y] = simulation.location();
    matrix.makeTranslation(x, y, POINT.radius);
  });
}

/** Squares that fade into the distance. */
function makeFloor(square: number, software: boolean): THREE.Mesh {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 64;
  const pen = tile.getContext("2d")!;
  pen.fillStyle = "#dfe3e6";
  pen.fillRect(0, 0, 64, 64);
  pen.fillStyle = "#c6ccd1";
  pen.fillRect(0, 0, 32, 32);
  pen.fillRect(32, 32, 32, 32);
  const texture = new THREE.CanvasTexture(tile);
  texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.anisotropy = software ? 1 : 8;
  if (software) texture.minFilter = THREE.LinearMipmapNearestFilter;
  const patterns = 48;
  texture.repeat.set(patterns, patterns);
  const side = 2 * square * patterns;
  return new THREE.Mesh(new THREE.PlaneGeometry(side, side), new THREE.MeshBasicMaterial({ map: texture }));
}

/** Rough ground, where there is some, with the floor's squares; it changes with every reset. */
class Ground {
  readonly mesh: THREE.Mesh<THREE.PlaneGeometry, THREE.MeshLambertMaterial>;
  readonly top: number;
  private shown = -1;

  constructor(
    private readonly robot: Robot,
    squares: THREE.Texture,
    square: number,
  ) {
    const { model } = robot;
    const [width, depth] = (model.hfield_size as Float64Array).slice(0, 2).map((half) => 2 * half);
    const geometry = new THREE.PlaneGeometry(width, depth, model.hfield_ncol[0] - 1, model.hfield_nrow[0] - 1);
    const texture = squares.clone();
    texture.repeat.set(width / (2 * square), depth / (2 * square));
    this.mesh = new THREE.Mesh(geometry, new THREE.MeshLambertMaterial({ map: texture }));
    const geom = (model.geom_type as Int32Array).indexOf(1);
    this.mesh.position.fromArray((model.geom_pos as Float64Array).slice(3 * geom, 3 * geom + 3));
    this.top = robot.about.ranges ? robot.about.ranges.height[1] + this.mesh.position.z : 0;
  }

  paint(dark: boolean): void {
    this.mesh.material.color.set(dark ? 0x4c555e : 0xd8d8d8);
  }

  show(version: number): void {
    if (version === this.shown) return;
    this.shown = version;
    const heights = this.robot.model.hfield_data as Float32Array; // rows from -y to y, those of the geometry from y to -y
    const unit = (this.robot.model.hfield_size as Float64Array)[2];
    const places = this.mesh.geometry.getAttribute("position") as THREE.BufferAttribute;
    const [columns, rows] = [this.robot.model.hfield_ncol[0], this.robot.model.hfield_nrow[0]];
    for (let i = 0; i < places.count; i++) {
      const height = unit * heights[(rows - 1 - Math.floor(i / columns)) * columns + (i % columns)];
      places.setZ(i, Math.max(height, -this.mesh.position.z)); // what is lower lies below the floor
    }
    places.needsUpdate = true;
    this.mesh.geometry.computeVertexNormals();
    this.mesh.visible = heights.some((height) => height > 0);
  }
}

/** The path as a band on the floor. */
class Ribbon {
  readonly mesh: THREE.Mesh;
  private readonly positions = new Float32Array(MOST_PIECES * 6); // left and right of each place
  private readonly colours = new Float32Array(MOST_PIECES * 6);
  private readonly geometry = new THREE.BufferGeometry();
  private shown = 0;
  private version = -1;

  constructor(private readonly width: number) {
    const index = new Uint32Array((MOST_PIECES - 1) * 6);
    for (let i = 0; i < MOST_PIECES - 1; i++) index.set([0, 1, 2, 2, 1, 3].map((k) => 2 * i + k), 6 * i);
    this.geometry.setAttribute("position", new THREE.BufferAttribute(this.positions, 3));
    this.geometry.setAttribute("color", new THREE.BufferAttribute(this.colours, 3));
    this.geometry.setIndex(new THREE.BufferAttribute(index, 1));
    const material = new THREE.MeshBasicMaterial({ vertexColors: true, side: THREE.DoubleSide });
    material.polygonOffset = true;
    material.polygonOffsetFactor = material.polygonOffsetUnits = -4;
    this.mesh = new THREE.Mesh(this.geometry, material);
    this.mesh.frustumCulled = false;
    this.mesh.renderOrder = 1;
  }

  show(trail: Trail): void {
    const { places } = trail;
    if (trail.version !== this.version) [this.version, this.shown] = [trail.version, 0];
    if (this.shown === places.length) return;
    const from = Math.max(this.shown - 1, 0);
    for (let i = from; i < places.length; i++) this.put(trail, i);
    for (const name of ["position", "color"]) {
      const attribute = this.geometry.getAttribute(name) as THREE.BufferAttribute;
      attribute.clearUpdateRanges();
      attribute.addUpdateRange(6 * from, 6 * (places.length - from));
      attribute.needsUpdate = true;
    }
    this.shown = places.length;
    this.geometry.setDrawRange(0, 6 * Math.max(places.length - 1, 0));
  }

  private put({ places }: Trail, i: number): void {
    const [before, after] = [places[Math.max(i - 1, 0)], places[Math.min(i + 1, places.length - 1)]];
    const length = Math.hypot(after.x - before.x, after.y - before.y) || 1;
    const [dx, dy] = [(-this.width * (after.y - before.y)) / length, (this.width * (after.x - before.x)) / length];
    const { x, y, colour } = places[i];
    this.positions.set([x + dx, y + dy, 0.001, x - dx, y - dy, 0.001], 6 * i);
    this.colours.set([...colour, ...colour], 6 * i);
  }
}

// Numbers and states for people, as dilococtl writes them. Pure.

// A 64-bit integer, which is a string in protobuf's JSON.
export function int(value) {
  return Number(value ?? 0);
}

// Seconds of a protobuf duration such as "1.500s".
export function seconds(duration) {
  return duration ? parseFloat(duration) : 0;
}

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// "12.3 s", "3 min 05 s", "2 h 05 min", "4 d 06 h".
export function durationText(value) {
  if (!isNumber(value)) return "–";
  const time = Math.max(0, value);
  if (time < 59.95) return `${time.toFixed(1)} s`;
  const whole = Math.round(time);
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  if (hours === 0) return `${minutes} min ${two(whole % 60)} s`;
  if (hours < 24) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

// "999 B", "1.5 kB", "12.3 MB", in powers of 1000.
export function bytesText(bytes) {
  const units = ["kB", "MB", "GB", "TB", "PB", "EB"];
  if (bytes < 1000) return `${bytes} B`;
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 999.95 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return `${value.toFixed(1)} ${units[unit]}`;
}

// "12,324".
export function countText(value) {
  return Math.round(value).toLocaleString("en");
}

export function lossText(loss) {
  return isNumber(loss) ? loss.toFixed(4) : "–";
}

// Share of a worker's wall time that its training thread did not wait, 0 to 1; null before training began.
export function utilization(progress) {
  if (!(progress?.wall_seconds > 0)) return null;
  return Math.min(1, Math.max(0, 1 - progress.blocked_seconds / progress.wall_seconds));
}

export function percentText(share) {
  return share === null ? "–" : `${(100 * share).toFixed(1)} %`;
}

// "RUN_STATE_WAITING_FOR_WORKERS", prefix "RUN_STATE_": "waiting for workers". Also of states that came later than this
// page.
export function stateText(name, prefix) {
  return String(name).replace(prefix, "").replaceAll("_", " ").toLowerCase();
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function plural(count, noun) {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function median(values) {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The entry of `laurel-client`.

export { LaurelClient, type Answer, type ClientOptions, type Document } from './client.js';
export { LaurelError, type Code } from './errors.js';
export * from './generated.js';
export { follow, type LiveOptions, type LiveState, type Observer } from './live.js';
export type { Backoff } from './pause.js';
export { QueueFullError, ScoreQueue, type Flush, type NewScore, type Outcome, type QueueOptions, type QueuedScore } from './queue.js';
export type * as schema from './schema.js';
export { LocalStorage, MemoryStorage, type ScoreStorage, type WebStorage } from './storage.js';

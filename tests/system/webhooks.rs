//! Webhooks: a real receiver, which checks every signature by the library of the convention.

mod changes;
mod corrections;
mod deliveries;
mod failures;
mod management;
mod periods;
mod receiver;
mod standings;

//! Webhooks: a real receiver, which checks every signature by the library of the convention.

mod changes;
mod circle;
mod corrections;
mod deliveries;
mod failures;
mod management;
mod overtaken;
mod overtaken_crashes;
mod periods;
mod standings;

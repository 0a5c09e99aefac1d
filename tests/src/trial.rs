//! A deployment under faults: its stores and processes, the load on it, and the verdict on what it
//! confirmed.
//!
//! | module | has |
//! |---|---|
//! | [`world`] | the stores, the proxies before them, and the processes |
//! | [`load`] | clients that submit numbered events, and what they were told |
//! | [`verdict`] | what became of those events, and what was promised |
//! | [`disk`] | a disk of its own for a store, which can be full |
//! | [`fake_clock`] | a clock of its own for a process |

pub mod disk;
pub mod fake_clock;
pub mod load;
pub mod verdict;
pub mod world;

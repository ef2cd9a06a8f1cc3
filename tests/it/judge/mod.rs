//! The judge against real HTTP: a server that answers as told, and the simulator.

mod batch_endpoint;
mod calls;
mod concurrency;
mod examples;
mod gates;
mod memory;
mod patience;
mod providers;
mod replies;
mod simulated;
mod stage;

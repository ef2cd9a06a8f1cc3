//! Judge over real HTTP: a scripted server, and the simulator.

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

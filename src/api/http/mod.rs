//! Common HTTP parts: authorization, requests, errors, the OpenAPI document. Independent of the resources.

pub(crate) mod access;
pub(crate) mod auth;
pub(crate) mod authorized;
pub(crate) mod body;
pub(crate) mod body_memory;
pub(crate) mod browsers;
pub(crate) mod connections;
pub(crate) mod etag;
pub(crate) mod extract;
pub(crate) mod guard;
pub(crate) mod idempotency;
pub(crate) mod layers;
pub(crate) mod links;
pub(crate) mod openapi;
pub mod problem;
pub(crate) mod serve;
pub(crate) mod spool;
mod token_throttle;
pub(crate) mod tokens;
pub(crate) mod transport;
pub(crate) mod wait;

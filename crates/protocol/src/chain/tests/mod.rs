//! Replicas, with clients and a controller that these tests are: scenarios, one for each failure and each mistake, and schedules from a seed.

mod claims;
mod clients;
mod failures;
mod govern;
mod joining;
mod judge;
mod planted;
mod random;
mod serving;
mod sessions;
mod world;

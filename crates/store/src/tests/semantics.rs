//! Scenarios that a reader of memcached's protocol.txt expects, one by one.

use super::tiny;
use crate::*;

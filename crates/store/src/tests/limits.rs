//! Memory: limits that hold, stores that fill up, caches that keep what is asked for.

use super::tiny;
use crate::*;

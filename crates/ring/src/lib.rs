//! Lock-free rings between a producer and a consumer, in one process or over shared memory.

//! millrace, the program: node wiring, load generator, probe, demo.

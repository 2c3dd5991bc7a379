//! Allocation: object-per-page pools, spans, arrays

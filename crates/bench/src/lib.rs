//! Workloads, baselines and peers side by side

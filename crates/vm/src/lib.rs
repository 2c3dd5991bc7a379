//! Virtual memory: regions, page buffer, faults and their delivery

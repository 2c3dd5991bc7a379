"""Ranks of a graph by igraph: the sum, the first hundred, and what all of them are."""
import hashlib
import struct
import sys
import time

import igraph

graph = igraph.Graph.Read_Edgelist(sys.argv[1], directed=True)
begin = time.perf_counter()
ranks = graph.pagerank(implementation="prpack")
seconds = time.perf_counter() - begin
print("vertices", graph.vcount(), "edges", graph.ecount(), "sum", repr(sum(ranks)))
for vertex in sorted(range(len(ranks)), key=lambda vertex: (-ranks[vertex], vertex))[:100]:
    print("vertex", vertex, repr(ranks[vertex]))
print("all", hashlib.sha256(struct.pack(f"{len(ranks)}d", *ranks)).hexdigest())
print("seconds", seconds)

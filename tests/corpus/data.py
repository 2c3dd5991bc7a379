"""Makes the data of the corpus: the same bytes for the same arguments on every machine."""
import os
import random

SEED = 20
PART = 20_000


def make(spec, folder):
    """The file of a spec like "lines 1000", which is made if it is not there yet."""
    kind, *numbers = spec.split()
    path = folder / "-".join([kind, *numbers])
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"{path.name}.{os.getpid()}"
        try:
            with new.open("wb") as file:
                for part in KINDS[kind](random.Random(SEED), *map(int, numbers)):
                    file.write(part if isinstance(part, bytes) else part.encode())
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)
    return path


def in_parts(count, line):
    """`count` lines by `line(i)`, many at a time."""
    for first in range(0, count, PART):
        yield "".join(line(i) for i in range(first, min(count, first + PART)))


def lines(rng, count):
    """Lines with a random key, a group and some text."""
    return in_parts(count, lambda i: f"{rng.getrandbits(48):012x} group{rng.getrandbits(10)} {i} some text of a line\n")


def csv(rng, count):
    """Three columns: a key that repeats, a name, a number."""
    yield "key,name,value\n"
    yield from in_parts(count, lambda i: f"{rng.randrange(count)},name{rng.getrandbits(16)},{rng.getrandbits(30)}\n")


def json(rng, count):
    """An array of objects."""
    yield "[\n"

    def one(i):
        return f'{{"id":{i},"key":{rng.getrandbits(31)},"tags":["a{i % 97}","b{i % 89}"],"name":"object {i}"}},\n'

    yield from in_parts(count, one)
    yield "{}]\n"


def xml(rng, count):
    """Elements with attributes, children and text."""
    yield '<?xml version="1.0"?>\n<rows>\n'
    yield from in_parts(
        count, lambda i: f'<row id="{i}" key="{rng.getrandbits(31)}"><name>row {i}</name><tag>t{i % 97}</tag></row>\n'
    )
    yield "</rows>\n"


def mixed(rng, mib):
    """Bytes of which most occurred before, near or far."""
    old = [rng.randbytes(4096) for _ in range(2048)]
    for _ in range(mib):
        yield b"".join(rng.choice(old) if rng.random() < 0.7 else rng.randbytes(4096) for _ in range(256))


def noise(rng, mib):
    """Random bytes."""
    return (rng.randbytes(1 << 20) for _ in range(mib))


def c_source(rng, count):
    """Functions of C with loops and calls."""
    yield "#include <stdio.h>\n"
    for i in range(count):
        yield (
            f"int f{i}(int a, int b)\n{{\n    int sum = {rng.getrandbits(20)};\n    for (int i = 0; i < a; i++) {{\n"
            f"        sum += (b ^ i) * {i % 97 + 1};\n        if (sum & {1 << i % 20}) sum -= b;\n"
            f"        else sum ^= f{max(0, i - 7)}(a - 1, sum);\n    }}\n    return sum;\n}}\n"
        )
    yield f'int main(void)\n{{\n    printf("%d\\n", f{count - 1}(3, 5));\n    return 0;\n}}\n'


def cpp_source(rng, count):
    """Templates of C++ with containers, each with types of its own."""
    yield "#include <algorithm>\n#include <iostream>\n#include <map>\n#include <string>\n#include <vector>\n"
    yield "template <int N> struct key { int value; bool operator<(const key &o) const { return value < o.value; } };\n"
    yield (
        "template <int N> long work(int n)\n{\n    std::map<key<N>, std::vector<std::string>> all;\n"
        "    for (int i = 0; i < n; i++) all[key<N>{i * N % 101}].push_back(std::to_string(i));\n"
        "    long sum = 0;\n"
        "    for (auto &[k, v] : all) { std::sort(v.begin(), v.end()); sum += k.value * v.size(); }\n"
        "    return sum;\n}\nint main()\n{\n    long sum = 0;\n"
    )
    yield "".join(f"    sum += work<{i + 1}>({rng.randrange(100)});\n" for i in range(count))
    yield "    std::cout << sum << std::endl;\n}\n"


def rust_source(rng, count):
    """Generic functions of Rust, each with types of its own."""
    yield (
        "use std::collections::{BTreeMap, HashMap};\n#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]\n"
        "struct Key<const N: usize>(usize);\nfn work<const N: usize>(n: usize) -> usize {\n"
        "    let mut all: BTreeMap<Key<N>, Vec<String>> = BTreeMap::new();\n"
        "    for i in 0..n { all.entry(Key(i * N % 101)).or_default().push(format!(\"{i:x}\")); }\n"
        "    let mut seen: HashMap<Key<N>, usize> = HashMap::new();\n"
        "    for (key, names) in &mut all { names.sort(); seen.insert(key.clone(), names.len()); }\n"
        "    all.keys().map(|key| key.0 * seen[key]).sum()\n}\nfn main() {\n    let mut sum = 0;\n"
    )
    yield "".join(f"    sum += work::<{i + 1}>({rng.randrange(100)});\n" for i in range(count))
    yield '    println!("{sum}");\n}\n'


def sql(rng, count):
    """A table with two indexes, and questions about it."""
    yield "PRAGMA cache_size = -1000000;\nPRAGMA temp_store = 2;\n"
    yield "CREATE TABLE t (id INTEGER PRIMARY KEY, k INT, name TEXT);\n"
    yield f"""INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
        SELECT i, i * 7919 % {rng.randrange(90_000, 99_999)}, printf('row %08d', i * 31 % {count}) FROM n;\n"""
    yield "CREATE INDEX by_k ON t (k);\nCREATE INDEX by_name ON t (name);\n"
    yield "SELECT count(*), sum(k), min(name), max(name) FROM t;\n"
    yield "SELECT k, count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 LIMIT 20;\n"
    yield "SELECT sum(a.k * b.id % 1000) FROM t a JOIN t b ON a.id = b.k;\nPRAGMA integrity_check;\n"


def redis_commands(rng, count):
    """Hashes, sorted sets and strings for redis-cli --pipe."""
    for i in range(count):
        yield f"HSET user:{i} name name{i} mail user{i}@example.org text {rng.getrandbits(400):x}\n"
        yield f"ZADD board:{i % 500} {rng.getrandbits(20)} user:{i}\n"
        yield f"SET text:{i} {rng.getrandbits(1600):x}\n"


def graph(rng, count):
    """A directed graph for Graphviz."""
    yield "digraph g {\n"
    for i in range(1, count):
        yield f"n{rng.randrange(i)} -> n{i};\nn{i} -> n{rng.randrange(count)};\n"
    yield "}\n"


def rows(rng, count):
    """Numbers in columns."""
    return in_parts(count, lambda i: f"{i} {rng.gauss(0, 1):.6f} {rng.random():.6f}\n")


def fasta(rng, bases):
    """One sequence of random bases in lines of 60."""
    yield ">sequence\n"
    for _ in range(bases // 60_000):
        text = "".join(rng.choices("ACGT", k=60_000))
        yield "".join(text[at:at + 60] + "\n" for at in range(0, len(text), 60))


def cnf(rng, variables):
    """A random 3-SAT problem that is far from hard, in DIMACS form."""
    clauses = variables * 3
    yield f"p cnf {variables} {clauses}\n"
    for _ in range(clauses):
        yield " ".join(str(rng.choice((-1, 1)) * v) for v in rng.sample(range(1, variables + 1), 3)) + " 0\n"


ALL = [lines, csv, json, xml, mixed, noise, c_source, cpp_source, rust_source, sql, redis_commands, graph, rows, fasta]
KINDS = {kind.__name__.replace("_", "-"): kind for kind in [*ALL, cnf]}

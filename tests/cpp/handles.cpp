// What it takes to use objects through handles, beside a plain vector, and containers that are larger than RAM.
//
//     c++ -std=c++17 -O2 handles.cpp $(pkg-config --cflags --libs aquifer) -o handles
//     ./handles                      nanoseconds for each object
//     ./handles pmr MIB RAM          a container of MIB, filled, sorted in parts and searched, in a heap of RAM bytes
//     ./handles malloc MIB           the same in ordinary memory: run it in a memory cgroup with swap
//
// crates/aquifer/examples/handles.rs is the same in Rust.
#include <aquifer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

using clock_type = std::chrono::steady_clock;

static double seconds_since(clock_type::time_point start)
{
    return std::chrono::duration<double>(clock_type::now() - start).count();
}

struct object {
    std::uint64_t words[8];
};

constexpr std::size_t objects = 100'000;
constexpr int rounds = 20;
static volatile std::uint64_t sink;

// Nanoseconds for each object, the median of five.
template <class One> static double measure(One one)
{
    std::vector<double> runs;
    for (int run = 0; run < 5; run++) {
        const auto start = clock_type::now();
        for (int round = 0; round < rounds; round++)
            for (std::size_t n = 0; n < objects; n++)
                sink = one(n);
        runs.push_back(seconds_since(start) * 1e9 / (rounds * objects));
    }
    std::sort(runs.begin(), runs.end());
    return runs[2];
}

static void handles()
{
    aquifer::heap heap(aquifer::settings().ram(256 << 20).flash_size(1 << 30).object_bytes(sizeof(object)));
    std::vector<std::unique_ptr<object>> plain;
    for (std::size_t n = 0; n < objects; n++)
        plain.push_back(std::make_unique<object>());
    aquifer::array<object> array(heap, objects);
    std::vector<aquifer::ref<object>> refs;
    for (std::size_t n = 0; n < objects; n++)
        refs.push_back(array[n]);
    std::printf("%zu objects of %zu bytes in turn, all in RAM, nanoseconds each:\n", objects, sizeof(object));
    std::printf("  unique_ptr        %6.1f\n", measure([&](std::size_t n) { return plain[n]->words[3]; }));
    std::printf("  array[n].read()   %6.1f\n", measure([&](std::size_t n) { return array[n].read()->words[3]; }));
    std::printf("  ref.read()        %6.1f\n", measure([&](std::size_t n) { return refs[n].read()->words[3]; }));
    std::printf("  ref.write()       %6.1f\n", measure([&](std::size_t n) { return ++refs[n].write()->words[3]; }));
}

// Fills, sorts runs of a MiB, and looks up in random runs.
static void container(std::pmr::memory_resource *memory, std::size_t bytes)
{
    constexpr std::size_t run = 128 << 10;
    std::mt19937_64 random(1);
    const auto start = clock_type::now();
    std::pmr::vector<std::uint64_t> values(memory);
    values.reserve(bytes / 8);
    while (values.size() < bytes / 8)
        values.push_back(random());
    const double filled = seconds_since(start);
    for (std::size_t first = 0; first + run <= values.size(); first += run)
        std::sort(values.begin() + first, values.begin() + first + run);
    const double sorted = seconds_since(start);
    std::uint64_t digest = 0;
    for (int n = 0; n < 20'000; n++) {
        const auto first = values.begin() + random() % (values.size() / run) * run;
        digest = digest * 31 + *std::lower_bound(first, first + run - 1, random());
    }
    const double searched = seconds_since(start);
    std::printf("fill %.2f s, sort %.2f s, 20000 searches %.2f s, all %.2f s, digest %016llx\n", filled, sorted - filled,
                searched - sorted, searched, static_cast<unsigned long long>(digest));
}

int main(int count, char **arguments)
{
    if (count == 1) {
        handles();
        return 0;
    }
    const std::size_t bytes = count > 2 ? std::strtoull(arguments[2], nullptr, 10) << 20 : 0;
    if (count == 4 && std::strcmp(arguments[1], "pmr") == 0) {
        aquifer::heap heap(aquifer::settings().ram(std::strtoull(arguments[3], nullptr, 10)).flash_size(bytes * 3));
        aquifer::memory_resource memory(heap);
        container(&memory, bytes);
        return 0;
    }
    if (count == 3 && std::strcmp(arguments[1], "malloc") == 0) {
        container(std::pmr::new_delete_resource(), bytes);
        return 0;
    }
    std::fprintf(stderr, "usage: handles | handles pmr MIB RAM | handles malloc MIB\n");
    return 2;
}

// Containers of the standard library and handles, larger than the RAM of their heap.
#include <aquifer.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>

static int failures;

#define CHECK(condition)                                                                                                               \
    do {                                                                                                                               \
        if (!(condition)) {                                                                                                            \
            std::printf("FAIL cpp: %s:%d: %s\n", __FILE__, __LINE__, #condition);                                                      \
            failures++;                                                                                                                \
        }                                                                                                                              \
    } while (0)

static aquifer::settings small()
{
    return aquifer::settings().ram(8 << 20).flash_size(256 << 20);
}

struct record {
    std::uint64_t key, visits;
    char name[112];
};

static void containers()
{
    aquifer::heap heap(small());
    aquifer::memory_resource memory(heap);
    std::pmr::vector<std::uint64_t> numbers(3 << 20, &memory); // 24 MiB
    std::iota(numbers.rbegin(), numbers.rend(), 0);
    std::sort(numbers.begin(), numbers.end());
    bool sorted = true;
    for (std::size_t n = 0; n < numbers.size(); n++)
        sorted = sorted && numbers[n] == n;
    CHECK(sorted);
    std::pmr::map<std::pmr::string, int> words(&memory);
    for (int n = 0; n < 50'000; n++)
        words.emplace("a word that is not stored in the string itself " + std::to_string(n), n);
    CHECK(words.size() == 50'000);
    CHECK(words.at("a word that is not stored in the string itself 37777") == 37'777);
    std::vector<double, aquifer::allocator<double>> values(1'000'000, 0.5, aquifer::allocator<double>(heap));
    CHECK(std::accumulate(values.begin(), values.end(), 0.0) == 500'000.0);
    CHECK(heap.stats().ram_used_bytes <= 8u << 20);
    CHECK(memory == aquifer::memory_resource(heap));
}

static void handles()
{
    aquifer::heap heap(small());
    aquifer::array<record> records(heap, 150'000); // 18 MiB
    for (std::size_t n = 0; n < records.size(); n++) {
        auto record = records[n].write();
        record->key = n;
        record->visits = 0;
    }
    std::mt19937 random(7);
    std::vector<std::size_t> indices(1000);
    std::vector<record> copies(indices.size());
    for (int round = 0; round < 50; round++) {
        for (auto &index : indices)
            index = random() % records.size();
        records.prefetch(indices);
        records.read(indices, copies.data());
        for (std::size_t n = 0; n < indices.size(); n++) {
            CHECK(copies[n].key == indices[n]);
            copies[n].visits = copies[n].key + 1;
        }
        records.write(indices, copies.data());
    }
    bool right = true;
    for (std::size_t n = 0; n < records.size(); n++) {
        const auto record = records[n].read();
        right = right && record->key == n && (record->visits == 0 || record->visits == n + 1);
    }
    CHECK(right);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([&records, thread] {
            for (std::size_t n = thread; n < records.size(); n += 4)
                records[n].write()->visits = 9;
        });
    for (auto &thread : threads)
        thread.join();
    CHECK(records.at_address(123'456).visits == 9 && records.at_address(123'456).key == 123'456);
    CHECK(records[5] == records[5] && records[5] != records[6]);
}

template <class Error, class Call> static bool throws(Call call)
{
    try {
        call();
    } catch (const Error &) {
        return true;
    }
    return false;
}

static void errors()
{
    try {
        aquifer::heap heap(small().ram(1));
        CHECK(false);
    } catch (const aquifer::error &error) {
        CHECK(error.code() == AQ_EBUDGET_SMALL && std::string(error.what()).find("at least") != std::string::npos);
    }
    CHECK(throws<aquifer::error>([] { aquifer::heap heap(small().flash("/no/such/place/file")); }));
    aquifer::heap heap(small());
    aquifer::array<record> records(heap, 10);
    CHECK(throws<std::out_of_range>([&] { records[10]; }));
    CHECK(throws<std::out_of_range>([&] { records.prefetch(std::vector<std::size_t>{3, 11}); }));
    aquifer::memory_resource memory(heap);
    CHECK(throws<std::bad_alloc>([&] { std::pmr::vector<char> all(std::size_t{1} << 40, &memory); }));
    CHECK(throws<aquifer::error>([&] { aquifer::ref<record>(heap.raw(), AQ_REF_NULL).read(); }));
}

int main()
{
    containers();
    handles();
    errors();
    if (failures == 0)
        std::puts("ok cpp: containers, handles, errors");
    return failures != 0;
}

// Containers of the standard library and handles, larger than the RAM of their heap.
#include <aquifer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>

static aquifer::settings small()
{
    return aquifer::settings().ram(8 << 20).flash_size(256 << 20);
}

struct record {
    std::uint64_t key, visits;
    char name[112];
};

TEST(Containers, ExceedTheirRam)
{
    aquifer::heap heap(small());
    aquifer::memory_resource memory(heap);
    std::pmr::vector<std::uint64_t> numbers(3 << 20, &memory); // 24 MiB
    std::iota(numbers.rbegin(), numbers.rend(), 0);
    std::sort(numbers.begin(), numbers.end());
    bool sorted = true;
    for (std::size_t n = 0; n < numbers.size(); n++)
        sorted = sorted && numbers[n] == n;
    EXPECT_TRUE(sorted);
    std::pmr::map<std::pmr::string, int> words(&memory);
    for (int n = 0; n < 50'000; n++)
        words.emplace("a word that is not stored in the string itself " + std::to_string(n), n);
    EXPECT_EQ(words.size(), 50'000u);
    EXPECT_EQ(words.at("a word that is not stored in the string itself 37777"), 37'777);
    std::vector<double, aquifer::allocator<double>> values(1'000'000, 0.5, aquifer::allocator<double>(heap));
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0), 500'000.0);
    EXPECT_LE(heap.stats().ram_used_bytes, 8u << 20);
    EXPECT_TRUE(memory == aquifer::memory_resource(heap));
}

TEST(Handles, AreTheSameObjects)
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
            ASSERT_EQ(copies[n].key, indices[n]);
            copies[n].visits = copies[n].key + 1;
        }
        records.write(indices, copies.data());
    }
    bool right = true;
    for (std::size_t n = 0; n < records.size(); n++) {
        const auto record = records[n].read();
        right = right && record->key == n && (record->visits == 0 || record->visits == n + 1);
    }
    EXPECT_TRUE(right);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([&records, thread] {
            for (std::size_t n = thread; n < records.size(); n += 4)
                records[n].write()->visits = 9;
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_TRUE(records.at_address(123'456).visits == 9 && records.at_address(123'456).key == 123'456);
    EXPECT_TRUE(records[5] == records[5] && records[5] != records[6]);
}

template <class Call> static int code_of(Call call)
{
    try {
        call();
    } catch (const aquifer::error &error) {
        EXPECT_STRNE(error.what(), "");
        return error.code();
    }
    return AQ_OK;
}

TEST(Errors, SayWhatToDo)
{
    try {
        aquifer::heap heap(small().ram(1));
        FAIL() << "a byte of RAM is enough";
    } catch (const aquifer::error &error) {
        EXPECT_EQ(error.code(), AQ_EBUDGET_SMALL);
        EXPECT_NE(std::string(error.what()).find("at least"), std::string::npos) << error.what();
    }
    EXPECT_EQ(code_of([] { aquifer::heap heap(small().flash("/no/such/place/file")); }), AQ_EFLASH_MISSING);
}

TEST(Errors, AreThoseOfTheStandardLibrary)
{
    aquifer::heap heap(small());
    aquifer::array<record> records(heap, 10);
    EXPECT_THROW(records[10], std::out_of_range);
    EXPECT_THROW(records.prefetch(std::vector<std::size_t>{3, 11}), std::out_of_range);
    aquifer::memory_resource memory(heap);
    EXPECT_THROW(std::pmr::vector<char>(std::size_t{1} << 40, &memory), std::bad_alloc);
}

TEST(Errors, HaveTheirNumbers)
{
    aquifer::heap heap(small());
    EXPECT_EQ(code_of([&] { aquifer::ref<record>(heap.raw(), AQ_REF_NULL).read(); }), AQ_EINVAL);
    EXPECT_EQ(code_of([&] { aquifer::ref<record>(heap.raw(), aq_ref{1} << 60).read(); }), AQ_EFOREIGN);
    aquifer::array<record> records(heap, 200'000);
    std::vector<aquifer::reading<record>> used;
    EXPECT_EQ(code_of([&] {
                  for (std::size_t n = 0; n < records.size(); n++)
                      used.push_back(records[n].read());
              }),
              AQ_EPINNED);
    EXPECT_GT(used.size(), 1000u);
}

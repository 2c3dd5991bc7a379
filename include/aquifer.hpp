/* Aquifer for C++17: memory that reaches below RAM, as the standard library's containers and as handles.
 *
 *     aquifer::heap heap(aquifer::settings().ram(64 << 20));
 *     aquifer::memory_resource memory(heap);
 *     std::pmr::vector<double> values(100'000'000, &memory);      // pages of 4 KiB, in RAM while they are used
 *
 *     aquifer::array<record> records(heap, 10'000'000);           // an object each
 *     records.read(indices, copies);                              // one batch, the device at full depth
 *     records[7].write()->visits++;                               // no page fault
 *
 * Header only, over aquifer.h, whose rules hold: link with -laquifer. Functions throw `aquifer::error`, or `std::bad_alloc` where the
 * standard library expects that. Objects go with their heap, which has to outlive them.
 */
#ifndef AQUIFER_HPP
#define AQUIFER_HPP

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "aquifer.h"

namespace aquifer {

/* A call that failed: its message says what to do, and `code` is one of `enum aq_error`. */
class error : public std::runtime_error {
public:
    explicit error(int code) : std::runtime_error(message(code)), code_(code) {}

    int code() const noexcept { return code_; }

private:
    static std::string message(int code)
    {
        const char *text = aq_error_message();
        return text != nullptr && *text != '\0' ? text : aq_strerror(code);
    }

    int code_;
};

namespace detail {

inline void check(int code)
{
    if (code != AQ_OK)
        throw error(code);
}

/* Objects begin at multiples of this in RAM. */
constexpr std::size_t object_align = 8;

template <class T> constexpr bool is_object = std::is_trivially_copyable_v<T> && alignof(T) <= object_align;

} // namespace detail

/* What a heap is made of; what is not said has its default. */
class settings {
public:
    settings() { aq_options_init(&options_, sizeof options_); }

    /* All RAM of the heap in bytes, its tables included. */
    settings &ram(std::uint64_t bytes)
    {
        options_.ram_bytes = bytes;
        return *this;
    }

    /* A file, block device or directory. */
    settings &flash(std::string path)
    {
        path_ = std::move(path);
        return *this;
    }

    settings &flash_size(std::uint64_t bytes)
    {
        options_.flash_bytes = bytes;
        return *this;
    }

    /* The size that most objects have. */
    settings &object_bytes(std::size_t bytes)
    {
        options_.object_bytes = bytes;
        return *this;
    }

    aq_options options() const
    {
        aq_options options = options_;
        options.flash_path = path_.empty() ? nullptr : path_.c_str();
        return options;
    }

private:
    aq_options options_;
    std::string path_;
};

/* A heap of one's own; all that is in it goes with it. */
class heap {
public:
    explicit heap(const settings &settings = aquifer::settings())
    {
        const aq_options options = settings.options();
        detail::check(aq_heap_open(&options, &raw_));
    }

    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;

    ~heap() { aq_heap_close(raw_); }

    aq_heap *raw() const noexcept { return raw_; }

    aq_stats stats() const
    {
        aq_stats stats{};
        stats.struct_bytes = sizeof stats;
        detail::check(aq_heap_stats_get(raw_, &stats));
        return stats;
    }

private:
    aq_heap *raw_ = nullptr;
};

/* The memory of `std::pmr` containers: blocks that share pages of 4 KiB. */
class memory_resource final : public std::pmr::memory_resource {
public:
    explicit memory_resource(heap &heap) noexcept : heap_(&heap) {}

private:
    void *do_allocate(std::size_t bytes, std::size_t align) override
    {
        void *block = aq_heap_page_memalign(heap_->raw(), align, bytes);
        if (block == nullptr)
            throw std::bad_alloc();
        return block;
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override { aq_heap_free(heap_->raw(), block); }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        const auto *same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && same->heap_ == heap_;
    }

    heap *heap_;
};

/* The same as an allocator of one type, for containers that are not of `std::pmr`. */
template <class T> class allocator {
public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    explicit allocator(heap &heap) noexcept : heap_(&heap) {}
    template <class U> allocator(const allocator<U> &other) noexcept : heap_(other.in()) {}

    T *allocate(std::size_t count)
    {
        if (count > static_cast<std::size_t>(-1) / sizeof(T))
            throw std::bad_array_new_length();
        void *block = aq_heap_page_memalign(heap_->raw(), alignof(T), count * sizeof(T));
        if (block == nullptr)
            throw std::bad_alloc();
        return static_cast<T *>(block);
    }

    void deallocate(T *block, std::size_t) noexcept { aq_heap_free(heap_->raw(), block); }

    heap *in() const noexcept { return heap_; }

    template <class U> bool operator==(const allocator<U> &other) const noexcept { return heap_ == other.in(); }
    template <class U> bool operator!=(const allocator<U> &other) const noexcept { return heap_ != other.in(); }

private:
    heap *heap_;
};

/* The bytes of an object where they are in RAM, until the end of the scope. `T` is const for reading. Threads that write take turns by
 * locks of their own. */
template <class T> class use {
public:
    use(aq_heap *heap, aq_ref object, int intent)
        : heap_(heap), object_(object), bytes_(static_cast<T *>(aq_heap_deref(heap, object, intent)))
    {
        if (bytes_ == nullptr)
            throw error(aq_error_code());
    }

    use(use &&other) noexcept : heap_(other.heap_), object_(other.object_), bytes_(std::exchange(other.bytes_, nullptr)) {}
    use(const use &) = delete;
    use &operator=(const use &) = delete;
    use &operator=(use &&) = delete;

    ~use()
    {
        if (bytes_ != nullptr)
            aq_heap_release(heap_, object_);
    }

    T &operator*() const noexcept { return *bytes_; }
    T *operator->() const noexcept { return bytes_; }
    T *get() const noexcept { return bytes_; }

private:
    aq_heap *heap_;
    aq_ref object_;
    T *bytes_;
};

template <class T> using reading = use<const T>;
template <class T> using writing = use<T>;

/* A handle of an object: a number that is its own for as long as it lives. Copying it copies no object. */
template <class T> class ref {
    static_assert(detail::is_object<T>, "objects move between RAM and flash as bytes: trivially copyable, aligned to 8 at most");

public:
    ref() noexcept = default;
    ref(aq_heap *heap, aq_ref object) noexcept : heap_(heap), object_(object) {}

    reading<T> read() const { return reading<T>(heap_, object_, AQ_READ); }
    writing<T> write() const { return writing<T>(heap_, object_, AQ_WRITE); }

    explicit operator bool() const noexcept { return object_ != AQ_REF_NULL; }
    aq_ref raw() const noexcept { return object_; }

    bool operator==(const ref &other) const noexcept { return heap_ == other.heap_ && object_ == other.object_; }
    bool operator!=(const ref &other) const noexcept { return !(*this == other); }

private:
    aq_heap *heap_ = nullptr;
    aq_ref object_ = AQ_REF_NULL;
};

/* `count` objects, zeroed at first, each of which is in RAM or on flash by itself. */
template <class T> class array {
    static_assert(detail::is_object<T>, "objects move between RAM and flash as bytes: trivially copyable, aligned to 8 at most");
    static_assert(sizeof(T) <= 4096, "an object of an array has one page of addresses");

public:
    array(heap &heap, std::size_t count) : heap_(heap.raw()), count_(count)
    {
        base_ = static_cast<char *>(aq_heap_array(heap_, count, sizeof(T), &stride_));
        if (base_ == nullptr)
            throw std::bad_alloc();
    }

    array(array &&other) noexcept
        : heap_(other.heap_), base_(std::exchange(other.base_, nullptr)), stride_(other.stride_), count_(std::exchange(other.count_, 0))
    {
    }

    array(const array &) = delete;
    array &operator=(const array &) = delete;
    array &operator=(array &&) = delete;

    ~array()
    {
        if (base_ != nullptr)
            aq_heap_free(heap_, base_);
    }

    std::size_t size() const noexcept { return count_; }

    /* The object itself, which page faults bring in. Do not touch it while a handle of it is in use. */
    T &at_address(std::size_t n) { return *static_cast<T *>(address(n)); }

    /* Its handle. */
    ref<T> operator[](std::size_t n) { return ref<T>(heap_, aq_heap_ref_of(heap_, address(n))); }

    /* Copies the objects `indices[n]` to `copies[n]`: what is not in RAM is read with many reads under way at once. */
    template <class Indices> void read(const Indices &indices, T *copies)
    {
        detail::check(aq_heap_read_batch(heap_, items(indices, copies).data(), indices.size()));
    }

    /* Copies `values[n]` to the objects `indices[n]`; of one that is named twice, the last is left. */
    template <class Indices> void write(const Indices &indices, const T *values)
    {
        detail::check(aq_heap_write_batch(heap_, items(indices, const_cast<T *>(values)).data(), indices.size()));
    }

    /* Brings objects into RAM that will be used soon: a hint. */
    template <class Indices> void prefetch(const Indices &indices)
    {
        std::vector<void *> objects;
        objects.reserve(indices.size());
        for (const std::size_t n : indices)
            objects.push_back(address(n));
        detail::check(aq_heap_prefetch(heap_, objects.data(), objects.size()));
    }

private:
    void *address(std::size_t n) const
    {
        if (n >= count_)
            throw std::out_of_range("object " + std::to_string(n) + " of an array of " + std::to_string(count_));
        return base_ + n * stride_;
    }

    template <class Indices> std::vector<aq_item> items(const Indices &indices, T *memory) const
    {
        std::vector<aq_item> items;
        items.reserve(indices.size());
        for (const std::size_t n : indices)
            items.push_back(aq_item{address(n), memory++, sizeof(T)});
        return items;
    }

    aq_heap *heap_;
    char *base_;
    std::size_t stride_ = 0;
    std::size_t count_;
};

} // namespace aquifer

#endif

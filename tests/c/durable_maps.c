/* durable_maps.c - maps, trees, queues and named roots of durable heaps. */
#include "durable.h"

#include <pthread.h>

/* ---- What C programs do with them ---------------------------------------- */

/* Maps and trees have these alike. */
struct keyed {
    int (*create)(aq_tx *, aq_durable_ref *);
    int (*destroy)(aq_tx *, aq_durable_ref);
    int (*put)(aq_tx *, aq_durable_ref, const void *, size_t, const void *, size_t);
    int (*get)(aq_tx *, aq_durable_ref, const void *, size_t, aq_bytes *);
    int (*remove)(aq_tx *, aq_durable_ref, const void *, size_t);
    int (*count)(aq_tx *, aq_durable_ref, uint64_t *);
    int (*first)(aq_tx *, aq_durable_ref, aq_bytes *, aq_bytes *);
    int (*next)(aq_tx *, aq_durable_ref, aq_bytes *, aq_bytes *);
};

static const struct keyed map_functions = {aq_map_create, aq_map_destroy, aq_map_put,   aq_map_get,
                                           aq_map_remove, aq_map_count,   aq_map_first, aq_map_next};
static const struct keyed tree_functions = {aq_tree_create, aq_tree_destroy, aq_tree_put,   aq_tree_get,
                                            aq_tree_remove, aq_tree_count,   aq_tree_first, aq_tree_next};

/* An object that is left behind is found. */
static void nothing_is_left(aq_durable *heap)
{
    aq_durable_ref object = 4711;
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_next(tx, AQ_DURABLE_NULL, &object));
    CHECK(object == AQ_DURABLE_NULL);
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
}

enum { KEYS = 300 };

static size_t key_of(int i, char *key)
{
    return (size_t)sprintf(key, i % 2 ? "%d" : "a key of more bytes than stand in a node, number %d", i * 7919 % 1000);
}

static void keyed_values_come_and_go(const struct keyed *f, const char *name)
{
    aq_durable *heap = open_new(name);
    aq_durable_ref map = AQ_DURABLE_NULL;
    char key[100], text[600], found[600];
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, f->create(tx, &map));
    CHECK_CODE(AQ_OK, aq_tx_set_root_named(tx, "map", "words", map));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    for (int i = 0; i < KEYS; i++) {
        fill(text, sizeof text, (uint64_t)i);
        tx = begin(heap);
        CHECK_CODE(AQ_OK, f->put(tx, map, key, key_of(i, key), "old", 3));
        CHECK_CODE(AQ_OK, f->put(tx, map, key, key_of(i, key), text, (size_t)i * 2));
        CHECK_CODE(AQ_OK, i % 9 == 8 ? aq_tx_abort(tx) : aq_tx_commit(tx));
    }
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    heap = reopen();
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_root_named(tx, "map", "words", &map));
    uint64_t count = 0, seen = 0, bytes = 0;
    for (int i = 0; i < KEYS; i++) {
        aq_bytes value = {found, sizeof found, 4711};
        int error = f->get(tx, map, key, key_of(i, key), &value);
        CHECK_CODE(i % 9 == 8 ? AQ_ENOTFOUND : AQ_OK, error);
        CHECK(error || (value.count == (size_t)i * 2 && is_filled(found, value.count, (uint64_t)i)));
        bytes += error ? 0 : value.count;
    }
    CHECK_CODE(AQ_OK, f->count(tx, map, &count));
    CHECK(count == KEYS - KEYS / 9);
    aq_bytes walked = {key, sizeof key, 0}, value = {found, sizeof found, 0};
    int error;
    for (error = f->first(tx, map, &walked, &value); error == AQ_OK; error = f->next(tx, map, &walked, &value)) {
        seen++;
        bytes -= value.count;
    }
    CHECK_CODE(AQ_ENOTFOUND, error);
    CHECK(seen == count && bytes == 0);
    for (int i = 0; i < KEYS; i++)
        CHECK_CODE(i % 9 == 8 ? AQ_ENOTFOUND : AQ_OK, f->remove(tx, map, key, key_of(i, key)));
    CHECK_CODE(AQ_OK, f->count(tx, map, &count));
    CHECK(count == 0);
    CHECK_CODE(AQ_ENOTFOUND, f->first(tx, map, &walked, NULL));
    CHECK_CODE(AQ_OK, f->put(tx, map, NULL, 0, NULL, 0));
    CHECK_CODE(AQ_OK, f->get(tx, map, "", 0, NULL));
    CHECK_CODE(AQ_OK, f->destroy(tx, map));
    CHECK_CODE(AQ_OK, aq_tx_set_root_named(tx, "map", NULL, AQ_DURABLE_NULL));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    nothing_is_left(heap);
    close_and_remove(heap);
}

static void values_of_a_map_come_and_go(void)
{
    keyed_values_come_and_go(&map_functions, "map");
}

static void values_of_a_tree_come_and_go(void)
{
    keyed_values_come_and_go(&tree_functions, "tree");
}

static void a_tree_is_in_order(void)
{
    static const char *const keys[] = {"", "a", "a key that is longer", "a key that is longer still", "ab", "b"};
    enum { COUNT = sizeof keys / sizeof keys[0] };
    aq_durable *heap = open_new("order");
    aq_durable_ref tree;
    char bytes[100] = "a key that is long";
    aq_bytes key = {bytes, sizeof bytes, strlen(bytes)};
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tree_create(tx, &tree));
    CHECK_CODE(AQ_ENOTFOUND, aq_tree_last(tx, tree, &key, NULL));
    for (int i = 0; i < COUNT; i++) {
        const char *other = keys[(i + 3) % COUNT];
        CHECK_CODE(AQ_OK, aq_tree_put(tx, tree, other, strlen(other), "", 0));
    }
    CHECK_CODE(AQ_OK, aq_tree_seek(tx, tree, &key, NULL));
    CHECK(key.count == strlen(keys[2]) && memcmp(bytes, keys[2], key.count) == 0);
    CHECK_CODE(AQ_OK, aq_tree_seek(tx, tree, &key, NULL));
    CHECK(key.count == strlen(keys[2]));
    CHECK_CODE(AQ_OK, aq_tree_last(tx, tree, &key, NULL));
    for (int i = COUNT - 1; i >= 0; i--) {
        CHECK(key.count == strlen(keys[i]) && memcmp(bytes, keys[i], key.count) == 0);
        CHECK_CODE(i ? AQ_OK : AQ_ENOTFOUND, aq_tree_previous(tx, tree, &key, NULL));
    }
    CHECK_CODE(AQ_OK, aq_tree_first(tx, tree, &key, NULL));
    for (int i = 0; i < COUNT; i++) {
        CHECK(key.count == strlen(keys[i]) && memcmp(bytes, keys[i], key.count) == 0);
        CHECK_CODE(i + 1 < COUNT ? AQ_OK : AQ_ENOTFOUND, aq_tree_next(tx, tree, &key, NULL));
    }
    bytes[0] = 'c';
    CHECK_CODE(AQ_ENOTFOUND, aq_tree_seek(tx, tree, &key, NULL));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    close_and_remove(heap);
}

static void a_queue_keeps_its_order(void)
{
    aq_durable *heap = open_new("queue");
    aq_durable_ref queue;
    char text[400], found[400];
    uint64_t count = 4711;
    aq_bytes value = {found, sizeof found, 0};
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_queue_create(tx, &queue));
    CHECK_CODE(AQ_ENOTFOUND, aq_queue_pop(tx, queue, &value));
    CHECK_CODE(AQ_ENOTFOUND, aq_queue_front(tx, queue, &value));
    for (int i = 0; i < 400; i++) {
        fill(text, sizeof text, (uint64_t)i);
        CHECK_CODE(AQ_OK, aq_queue_push(tx, queue, text, (size_t)i));
    }
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    for (int i = 0; i < 350; i++) {
        tx = begin(heap);
        CHECK_CODE(AQ_OK, aq_queue_front(tx, queue, &value));
        CHECK(value.count == (size_t)i);
        if (i > 0) {
            /* Nothing is taken that there is no room for. */
            aq_bytes small = {text, (size_t)i - 1, 0};
            CHECK_CODE(AQ_EROOM, aq_queue_pop(tx, queue, &small));
            CHECK(small.count == (size_t)i);
        }
        CHECK_CODE(AQ_OK, aq_queue_pop(tx, queue, &value));
        CHECK(value.count == (size_t)i && is_filled(found, value.count, (uint64_t)i));
        CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    }
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_queue_count(tx, queue, &count));
    CHECK(count == 50);
    for (int i = 0; i < 50; i++) {
        CHECK_CODE(AQ_OK, aq_queue_at(tx, queue, (uint64_t)i, &value));
        CHECK(value.count == (size_t)i + 350 && is_filled(found, value.count, (uint64_t)i + 350));
    }
    CHECK_CODE(AQ_ENOTFOUND, aq_queue_at(tx, queue, 50, &value));
    CHECK_CODE(AQ_ENOTFOUND, aq_queue_at(tx, queue, UINT64_MAX, &value));
    CHECK_CODE(AQ_OK, aq_queue_pop(tx, queue, NULL));
    CHECK_CODE(AQ_OK, aq_queue_destroy(tx, queue));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    nothing_is_left(heap);
    close_and_remove(heap);
}

/* ---- Room ----------------------------------------------------------------- */

static void too_little_room_is_told_and_nothing_written(void)
{
    aq_durable *heap = open_new("room");
    for (int kind = 0; kind < 2; kind++) {
        const struct keyed *f = kind ? &tree_functions : &map_functions;
        aq_durable_ref map;
        char bytes[8] = "unchang", other[8] = "unchang";
        aq_tx *tx = begin(heap);
        CHECK_CODE(AQ_OK, f->create(tx, &map));
        CHECK_CODE(AQ_OK, f->put(tx, map, "key", 3, "a value of some bytes", 21));
        for (size_t room = 0; room < 21; room += 5) {
            aq_bytes value = {room ? bytes : NULL, room < 8 ? room : 7, 4711};
            CHECK_CODE(AQ_EROOM, f->get(tx, map, "key", 3, &value));
            CHECK_MESSAGE("21 bytes");
            CHECK(value.count == 21 && strcmp(bytes, "unchang") == 0);
        }
        aq_bytes key = {bytes, 2, 4711}, value = {other, 7, 4711};
        CHECK_CODE(AQ_EROOM, f->first(tx, map, &key, NULL));
        CHECK(key.count == 3 && strcmp(bytes, "unchang") == 0);
        if (kind) {
            key = (aq_bytes){bytes, 7, 0};
            CHECK_CODE(AQ_EROOM, f->next(tx, map, &key, &value));
            CHECK(key.count == 0 && value.count == 21);
            CHECK(strcmp(bytes, "unchang") == 0 && strcmp(other, "unchang") == 0);
            CHECK_CODE(AQ_OK, f->next(tx, map, &key, NULL));
            CHECK(key.count == 3 && strcmp(bytes, "keyhang") == 0);
        }
        /* The transaction goes on after all of that. */
        CHECK_CODE(AQ_OK, f->remove(tx, map, "key", 3));
        CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    }
    close_and_remove(heap);
}

/* ---- Mistakes ------------------------------------------------------------- */

#define CHECK_DOOMS(expected, call) \
    do { \
        aq_tx *tx = begin(heap); \
        CHECK_CODE(expected, call); \
        CHECK_CODE(expected, aq_tx_commit(tx)); \
    } while (0)

static void wrong_arguments_doom_the_transaction(void)
{
    aq_durable *heap = open_new("wrong");
    aq_durable_ref map, tree, queue, number = allocate(heap, 8);
    aq_bytes none = {NULL, 0, 7};
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_map_create(tx, &map));
    CHECK_CODE(AQ_OK, aq_tree_create(tx, &tree));
    CHECK_CODE(AQ_OK, aq_queue_create(tx, &queue));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    CHECK_DOOMS(AQ_EINVAL, aq_map_create(tx, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_queue_create(tx, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_map_put(tx, map, NULL, 1, "", 0));
    CHECK_DOOMS(AQ_EINVAL, aq_map_put(tx, map, "", 0, NULL, 1));
    CHECK_DOOMS(AQ_EINVAL, aq_tree_get(tx, tree, NULL, 1, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_map_count(tx, map, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_queue_count(tx, queue, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_map_next(tx, map, NULL, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_map_next(tx, map, &none, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_tree_put(tx, tree, "", SIZE_MAX, "", 0));
    CHECK_DOOMS(AQ_EWRONGTYPE, aq_map_get(tx, tree, "", 0, NULL));
    CHECK_DOOMS(AQ_EWRONGTYPE, aq_tree_put(tx, map, "", 0, "", 0));
    CHECK_DOOMS(AQ_EWRONGTYPE, aq_queue_push(tx, number, "", 0));
    CHECK_DOOMS(AQ_EWRONGTYPE, aq_map_destroy(tx, AQ_DURABLE_NULL));
    CHECK_MESSAGE("failed before");
    CHECK_DOOMS(AQ_EWRONGTYPE, aq_queue_pop(tx, UINT64_MAX, NULL));
    char *large = calloc(1, AQ_VALUE_BYTES_MAX + 1);
    CHECK(large);
    CHECK_DOOMS(AQ_EINVAL, aq_map_put(tx, map, large, AQ_KEY_BYTES_MAX + 1, "", 0));
    CHECK_DOOMS(AQ_EINVAL, aq_queue_push(tx, queue, large, AQ_VALUE_BYTES_MAX + 1));
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tree_put(tx, tree, large, AQ_KEY_BYTES_MAX, large, AQ_VALUE_BYTES_MAX));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    free(large);
    CHECK_CODE(AQ_OK, aq_tx_begin_read(heap, &tx));
    CHECK_CODE(AQ_OK, aq_tree_get(tx, tree, "", 0, NULL) == AQ_ENOTFOUND ? AQ_OK : -1);
    CHECK_CODE(AQ_EREADONLY, aq_tree_remove(tx, tree, "", 0));
    CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    close_and_remove(heap);
}

/* ---- Named roots ---------------------------------------------------------- */

static void roots_have_names_and_types(void)
{
    aq_durable *heap = open_new("roots");
    aq_durable_ref first = allocate(heap, 8), second = allocate(heap, 8), found = 4711;
    char name[AQ_ROOT_NAME_BYTES_MAX + 1] = "", type[AQ_ROOT_NAME_BYTES_MAX + 1], longest[AQ_ROOT_NAME_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[AQ_ROOT_NAME_BYTES_MAX + 1] = 0;
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_root_named(tx, "shop", "shop", &found));
    CHECK(found == AQ_DURABLE_NULL);
    CHECK_CODE(AQ_OK, aq_tx_set_root_named(tx, "shop", "struct shop", first));
    CHECK_CODE(AQ_OK, aq_tx_set_root_named(tx, longest + 1, NULL, second));
    CHECK_CODE(AQ_OK, aq_tx_set_root(tx, second));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    CHECK_CODE(AQ_OK, aq_durable_close(heap));
    heap = reopen();
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_root(tx, &found));
    CHECK(found == second);
    CHECK_CODE(AQ_OK, aq_tx_root_named(tx, "shop", "struct shop", &found));
    CHECK(found == first);
    CHECK_CODE(AQ_OK, aq_tx_root_named(tx, "shop", NULL, &found));
    CHECK(found == first);
    int seen = 0;
    do {
        CHECK_CODE(AQ_OK, aq_tx_next_root(tx, name, name, type, &found));
        CHECK(seen != 0 || (strcmp(name, "shop") == 0 && strcmp(type, "struct shop") == 0 && found == first));
        CHECK(seen != 1 || (strcmp(name, longest + 1) == 0 && !*type && found == second));
        CHECK(seen != 2 || (!*name && !*type && found == AQ_DURABLE_NULL));
    } while (seen++ < 2);
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));

    found = 4711;
    CHECK_DOOMS(AQ_EWRONGTYPE, aq_tx_root_named(tx, "shop", "struct garage", &found));
    tx = begin(heap);
    CHECK_CODE(AQ_EWRONGTYPE, aq_tx_set_root_named(tx, "shop", "struct garage", second));
    CHECK_MESSAGE("'struct shop', not 'struct garage'");
    CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    CHECK_DOOMS(AQ_ENAME, aq_tx_root_named(tx, "", NULL, &found));
    CHECK_DOOMS(AQ_ENAME, aq_tx_root_named(tx, longest, NULL, &found));
    CHECK_DOOMS(AQ_ENAME, aq_tx_set_root_named(tx, "shop", longest, first));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_root_named(tx, NULL, NULL, &found));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_root_named(tx, "shop", NULL, NULL));
    CHECK_DOOMS(AQ_EINVAL, aq_tx_next_root(tx, NULL, NULL, NULL, &found));
    CHECK_DOOMS(AQ_ENOTALLOCATED, aq_tx_set_root_named(tx, "shop", NULL, first + 4));
    tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_tx_free(tx, first));
    CHECK_CODE(AQ_ENOTALLOCATED, aq_tx_set_root_named(tx, "other", NULL, first));
    CHECK_CODE(AQ_OK, aq_tx_abort(tx));
    CHECK(found == 4711);
    close_and_remove(heap);
}

/* ---- One of several threads ----------------------------------------------- */

enum { ROUNDS = 2000 };

struct share {
    aq_durable *heap;
    aq_durable_ref map, tree, queue;
    uint64_t number;
};

static int add_one_of_mine(aq_tx *tx, void *argument)
{
    const struct share *share = argument;
    char key[40];
    size_t length = (size_t)sprintf(key, "number %llu", (unsigned long long)(share->number % 50));
    uint64_t count = 0;
    aq_bytes value = {&count, sizeof count, 0};
    int error = aq_map_get(tx, share->map, key, length, &value);
    if (error && error != AQ_ENOTFOUND)
        return error;
    count++;
    aq_map_put(tx, share->map, key, length, &count, sizeof count);
    aq_tree_put(tx, share->tree, key, length, &count, sizeof count);
    return aq_queue_push(tx, share->queue, key, length);
}

static void *add_often(void *argument)
{
    struct share share = *(struct share *)argument;
    for (int i = 0; i < ROUNDS; i++) {
        share.number = share.number * 6364136223846793005u + 1442695040888963407u;
        struct share now = share;
        now.number >>= 40;
        int error = aq_durable_run(share.heap, add_one_of_mine, &now);
        if (error)
            return (void *)(intptr_t)error;
    }
    return NULL;
}

static void threads_lose_nothing(void)
{
    aq_durable *heap = open_new("threads");
    struct share shares[2] = {{.heap = heap, .number = 1}};
    aq_tx *tx = begin(heap);
    CHECK_CODE(AQ_OK, aq_map_create(tx, &shares[0].map));
    CHECK_CODE(AQ_OK, aq_tree_create(tx, &shares[0].tree));
    CHECK_CODE(AQ_OK, aq_queue_create(tx, &shares[0].queue));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    shares[1] = shares[0];
    shares[1].number = 2;
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        CHECK(pthread_create(&threads[t], NULL, add_often, &shares[t]) == 0);
    for (int t = 0; t < 2; t++) {
        void *error;
        CHECK(pthread_join(threads[t], &error) == 0 && !error);
    }
    uint64_t sum = 0, queued = 0, in_map = 0, in_tree = 0;
    char bytes[40];
    aq_bytes key = {bytes, sizeof bytes, 0}, value = {&in_tree, sizeof in_tree, 0}, other = {&in_map, sizeof in_map, 0};
    tx = begin(heap);
    int error = aq_tree_first(tx, shares[0].tree, &key, &value);
    for (; error == AQ_OK; error = aq_tree_next(tx, shares[0].tree, &key, &value)) {
        CHECK_CODE(AQ_OK, aq_map_get(tx, shares[0].map, bytes, key.count, &other));
        CHECK(in_map == in_tree);
        sum += in_tree;
    }
    CHECK_CODE(AQ_ENOTFOUND, error);
    CHECK_CODE(AQ_OK, aq_queue_count(tx, shares[0].queue, &queued));
    CHECK(sum == 2 * ROUNDS && queued == 2 * ROUNDS);
    CHECK_CODE(AQ_OK, aq_map_destroy(tx, shares[0].map));
    CHECK_CODE(AQ_OK, aq_tree_destroy(tx, shares[0].tree));
    CHECK_CODE(AQ_OK, aq_queue_destroy(tx, shares[0].queue));
    CHECK_CODE(AQ_OK, aq_tx_commit(tx));
    nothing_is_left(heap);
    close_and_remove(heap);
}

int main(void)
{
    RUN(values_of_a_map_come_and_go);
    RUN(values_of_a_tree_come_and_go);
    RUN(a_tree_is_in_order);
    RUN(a_queue_keeps_its_order);
    RUN(too_little_room_is_told_and_nothing_written);
    RUN(wrong_arguments_doom_the_transaction);
    RUN(roots_have_names_and_types);
    RUN(threads_lose_nothing);
    return tests_failed();
}

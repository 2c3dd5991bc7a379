#!/usr/bin/env python3
"""durable_kv.py FILE [KEY [VALUE]]: the store of durable-kv by ctypes. Sets a value, prints one, or prints all."""
import os
import sys
from ctypes import CDLL, Structure, addressof, byref, c_char_p, c_size_t, c_uint64, c_void_p, create_string_buffer

library = CDLL(os.environ.get("AQUIFER_LIBRARY", "libaquifer.so.0"))
library.aq_error_message.restype = c_char_p


class Bytes(Structure):
    _fields_ = [("bytes", c_void_p), ("room", c_size_t), ("count", c_size_t)]

    def __init__(self, room):
        self.text = create_string_buffer(room)
        super().__init__(addressof(self.text), room)


def call(name, *arguments):
    if getattr(library, name)(*arguments):
        sys.exit("durable_kv.py: " + library.aq_error_message().decode())


def run(file, key=None, value=None):
    heap, tx, words, found = c_void_p(), c_void_p(), c_uint64(), Bytes(15 << 20)
    call("aq_durable_open", file, None, byref(heap))
    call("aq_tx_begin", heap, byref(tx))
    call("aq_tx_root_named", tx, b"map", b"aq_map", byref(words))
    if not words.value:
        call("aq_map_create", tx, byref(words))
        call("aq_tx_set_root_named", tx, b"map", b"aq_map", words)
    if value is not None:
        call("aq_map_put", tx, words, key, c_size_t(len(key)), value, c_size_t(len(value)))
    elif key is not None:
        call("aq_map_get", tx, words, key, c_size_t(len(key)), byref(found))
        print(os.fsdecode(found.text.raw[:found.count]))
    else:
        at, step = Bytes(65535), library.aq_map_first
        while step(tx, words, byref(at), byref(found)) == 0:
            print(os.fsdecode(at.text.raw[:at.count]), os.fsdecode(found.text.raw[:found.count]), sep="\t")
            step = library.aq_map_next
    call("aq_tx_commit", tx)
    call("aq_durable_close", heap)


run(*map(os.fsencode, sys.argv[1:]))

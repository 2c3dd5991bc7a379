#!/bin/sh
# Compiles the C++ tests against build/lib and runs them. One result line each; exits with 1 if one failed.
#
#   tests/cpp/run.sh [NAME]...      NAME: header, containers, sanitized, document, cmake; default: all
#   tests/cpp/run.sh --list         the names
set -u
cd "$(dirname "$0")" || exit 1
root=$(cd ../.. && pwd)
lib=${AQUIFER_LIBDIR:-$root/build/lib}
subject=cpp
needs_aquifer=''
. "$root/tests/lib.sh"
flags='-std=c++17 -g -Wall -Wextra -Wpedantic -Werror -pthread'
# A test that hangs is ended after this.
hang_s=600

[ $# -gt 0 ] || set -- header containers sanitized document cmake
if [ "$1" = --list ]; then
    printf '%s\n' header containers sanitized document cmake
    exit 0
fi
command -v "${CXX:-c++}" >/dev/null || skip_all 'no C++ compiler (package g++)'
work=$(mktemp -d "${TMPDIR:-/var/tmp}/aquifer-cpp.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# compile OUTPUT FLAG...
compile() {
    output=$1
    shift
    # shellcheck disable=SC2086 # flags are a list
    "${CXX:-c++}" $flags "$@" -I"$root/include" containers.cpp -o "$output" -L"$lib" -laquifer -lgtest -lgtest_main -Wl,-rpath,"$lib"
}

has_googletest() {
    echo '#include <gtest/gtest.h>' | "${CXX:-c++}" -x c++ - -fsyntax-only 2>/dev/null && return
    skip "$1: no GoogleTest (package libgtest-dev)"
    return 1
}

header() {
    for standard in c++17 c++20; do
        if echo '#include <aquifer.hpp>' |
            "${CXX:-c++}" -std=$standard -Wall -Wextra -Wpedantic -Werror -I"$root/include" -fsyntax-only -x c++ -; then
            pass "the header alone, as $standard"
        else
            fail "the header alone, as $standard"
        fi
    done
}

containers() {
    has_googletest containers || return
    if compile "$work/containers" -O1 && timeout -k 10 "$hang_s" "$work/containers" >"$work/output" 2>&1; then
        pass "containers, handles, errors: $(grep -c '^\[       OK' "$work/output") tests"
    else
        cat "$work/output"
        fail 'containers, handles, errors'
    fi
}

# Leaks are not looked for: the library's threads live as long as the process.
sanitized() {
    has_googletest 'with sanitizers' || return
    if ! echo 'int main() {}' | "${CXX:-c++}" -fsanitize=address,undefined -x c++ - -o "$work/empty" 2>/dev/null; then
        skip 'sanitizers: the compiler has none'
        return
    fi
    compile "$work/sanitized" -O1 -fsanitize=address,undefined -fno-sanitize-recover=all &&
        ASAN_OPTIONS=detect_leaks=0:handle_sigbus=0 timeout -k 10 "$hang_s" "$work/sanitized" >"$work/output" 2>&1
    status=$?
    if [ $status = 0 ]; then
        pass 'with AddressSanitizer and UndefinedBehaviorSanitizer'
    else
        cat "$work/output"
        fail "with sanitizers: ended with $status"
    fi
}

# The program of docs/start/cpp.md.
document() {
    sed -n '/^```cpp$/,/^```$/p' "$root/docs/start/cpp.md" | grep -v '^```' >"$work/document.cpp"
    # shellcheck disable=SC2086
    "${CXX:-c++}" $flags -O1 -I"$root/include" "$work/document.cpp" -o "$work/document" -L"$lib" -laquifer -Wl,-rpath,"$lib" &&
        timeout -k 10 "$hang_s" "$work/document" >"$work/output" 2>&1
    if [ "$(tr '\n' ' ' <"$work/output")" = '2097152 1 1 ' ]; then
        pass 'docs/start/cpp.md'
    else
        cat "$work/output"
        fail 'docs/start/cpp.md'
    fi
}

cmake_package() {
    if ! command -v cmake >/dev/null; then
        skip 'CMake package: no cmake'
        return
    fi
    "$root/scripts/install.sh" '' "$work/prefix" >"$work/output" 2>&1 || {
        cat "$work/output"
        fail 'CMake package: cannot be installed'
        return
    }
    mkdir "$work/project"
    cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(user CXX)
find_package(aquifer REQUIRED)
add_executable(user user.cpp)
target_compile_features(user PRIVATE cxx_std_17)
target_link_libraries(user aquifer::aquifer)
END
    cat >"$work/project/user.cpp" <<'END'
#include <aquifer.hpp>
int main()
{
    aquifer::heap heap(aquifer::settings().ram(8 << 20).flash_size(256 << 20));
    aquifer::array<long> numbers(heap, 10);
    *numbers[3].write() = 7;
    return *numbers[3].read() != 7;
}
END
    if cmake -S "$work/project" -B "$work/built" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/output" 2>&1 &&
        cmake --build "$work/built" >>"$work/output" 2>&1 && "$work/built/user"; then
        pass 'CMake package'
    else
        cat "$work/output"
        fail 'CMake package'
    fi
}

for name in "$@"; do
    case $name in
        header | containers | sanitized | document) "$name" ;;
        cmake) cmake_package ;;
        *) fail "no test $name" ;;
    esac
done
exit "$failed"

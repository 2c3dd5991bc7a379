# Runs a file of SQLite's test suite with its databases in a volume: what tests do to database files by Tcl's commands is done there.
#
#   testfixture prelude.tcl FILES_LIBRARY TEST_FILE      without AQUIFER_VOLUME: on the file system, for comparison
#
# A file that is not in the volume is one of the file system: tests write scripts and read expected output there.

set vfile_library [lindex $argv 0]
set argv0 [lindex $argv 1]
set argv [lrange $argv 2 end]

# The suite's own switch for runs in which tests must not start further processes that share their databases: a volume has one.
set ::G(valgrind) 1

if {![info exists ::env(AQUIFER_VOLUME)]} {
    source $argv0
    return
}
load $vfile_library Files

# Names that databases were opened by or copied to: what a pattern may mean in the volume. The suite attaches databases with a number behind the name.
proc note_name {name} {
    regsub {^\./} $name {} name
    set ::vfile_names($name) 1
}
trace add execution sqlite3 enter {apply {{words verb} {
    if {[llength $words] > 2} { note_name [lindex $words 2] }
}}}

rename glob native_glob
proc glob {args} {
    set found [uplevel 1 [list native_glob -nocomplain {*}$args]]
    foreach pattern $args {
        foreach name [array names ::vfile_names] {
            foreach suffix {{} -journal -wal 2 2-journal 2-wal 3 3-journal 3-wal 4} {
                set file $name$suffix
                if {[string match $pattern $file] && $file ni $found && [vfile exists $file]} { lappend found $file }
            }
        }
    }
    if {$found eq "" && "-nocomplain" ni $args} { error "no files matched glob pattern \"$args\"" }
    lsort $found
}

rename md5file native_md5file
proc md5file {name args} {
    if {![vfile exists $name]} { return [native_md5file $name {*}$args] }
    copy_out $name
    set sum [native_md5file $name {*}$args]
    native_file delete $name
    return $sum
}

# Whether a file of that name would be SQLite's.
proc is_database {name} {
    regexp {\.(db|sqlite)|-journal$|-wal$} [native_file tail $name]
}

# Copies a file between the volume and the file system.
proc copy_out {name} {
    set out [native_open $name w]
    fconfigure $out -translation binary
    set bytes [vfile size $name]
    # Reads end at the file's end.
    for {set at 0} {$at < $bytes} {incr at 65536} { puts -nonewline $out [vfile read $name $at 65536] }
    native_close $out
}
proc copy_in {name} {
    set in [native_open $name]
    fconfigure $in -translation binary
    set data [read $in]
    native_close $in
    # In place: connections may have it open.
    vfile write $name 0 $data
    vfile truncate $name [string length $data]
}

# A database that a test opens by itself is copied out, and back when it is closed.
rename open native_open
rename close native_close
proc open {name {mode r} args} {
    if {[string match |* $name] || (![vfile exists $name] && ![is_database $name])} {
        return [uplevel 1 [list native_open $name $mode {*}$args]]
    }
    if {[vfile exists $name]} { copy_out $name }
    set channel [uplevel 1 [list native_open $name $mode {*}$args]]
    set ::vfile_outside($channel) [list $name [expr {$mode ni {r rb RDONLY}}]]
    return $channel
}
proc close {channel args} {
    native_close $channel {*}$args
    if {[info exists ::vfile_outside($channel)]} {
        foreach {name is_changed} $::vfile_outside($channel) {}
        unset ::vfile_outside($channel)
        if {$is_changed} { copy_in $name }
        native_file delete $name
    }
}

rename file native_file
proc file {verb args} {
    set name [lindex $args end]
    switch -- $verb {
        exists {
            if {[vfile exists $name]} { return 1 }
        }
        size {
            if {[vfile exists $name]} { return [vfile size $name] }
        }
        isfile - readable - writable {
            if {[vfile exists $name]} { return 1 }
        }
        delete {
            foreach name $args {
                if {![string match -* $name] && [vfile exists $name]} { vfile delete $name }
            }
        }
        copy - rename {
            foreach {from to} [lrange $args end-1 end] {}
            if {[vfile exists $from]} {
                if {[vfile exists $to] && "-force" ni $args} {
                    error "error copying \"$from\" to \"$to\": file already exists"
                }
                vfile copy $from $to
                note_name $to
                if {$verb eq "rename"} { vfile delete $from }
                return
            }
        }
    }
    uplevel 1 [list native_file $verb {*}$args]
}

rename hexio_read native_hexio_read
proc hexio_read {name offset bytes} {
    if {![vfile exists $name]} { return [native_hexio_read $name $offset $bytes] }
    binary scan [vfile read $name $offset $bytes] H* digits
    string toupper $digits
}

rename hexio_write native_hexio_write
proc hexio_write {name offset digits} {
    if {![vfile exists $name]} { return [native_hexio_write $name $offset $digits] }
    vfile write $name $offset [binary format H* [string map {" " "" "\n" ""} $digits]]
}

source $argv0

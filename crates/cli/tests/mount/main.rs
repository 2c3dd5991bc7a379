//! Volumes at a folder of the system. Each check runs on a native folder first, which proves the check, and then on a mount.

mod crash;
mod direct;
mod folders;
mod ground;
mod handles;
mod lifetime;
mod links;
mod locks;
mod memory;
mod modes;
mod names;
mod nodes;
mod opening;
mod sizes;
mod space;
mod times;
mod users;
mod written_back;
mod xattrs;

/// Tests of checks: `native::NAME`, `mounted::NAME` and `mounted_to_write_back::NAME` for each.
macro_rules! checks {
    ($($module:ident: $($check:ident)*;)*) => {
        mod native {
            $(mod $module { $(#[test] fn $check() { crate::ground::native(crate::$module::$check); })* })*
        }
        mod mounted {
            $(mod $module { $(#[test] fn $check() { crate::ground::mounted(stringify!($check), crate::$module::$check); })* })*
        }
        mod mounted_to_write_back {
            $(mod $module { $(#[test] fn $check() {
                crate::ground::written_back(stringify!($check), crate::$module::$check);
            })* })*
        }
    };
}

checks! {
    direct: are_read_by_others;
    folders: ten_thousand_files empty_is_removed_and_full_is_not removing_while_listing dots_are_listed links_are_counted
        a_removed_folder_that_is_stood_in sync_of_a_folder set_group_id_is_inherited;
    links: another_name symbolic loops_end long_targets names_of_links_go_away;
    locks: of_records of_files;
    memory: is_written_through_a_mapping private_mappings_stay_private mapping_and_writing_agree mapped_bytes_are_data holes_are_found;
    modes: of_new_files umask_takes_bits_away are_changed special_bits;
    names: too_long taken_names onto_a_file onto_folders into_itself without_replacing exchanged across_folders same_file_twice not_there;
    nodes: pipes_carry_bytes sockets_are_connected_to devices_keep_their_numbers;
    opening: exclusive appended truncated without_a_name for_all_flags replaced_while_open many_at_once
        files_that_never_have_a_name;
    sizes: up_and_down sparse punched allocated far_away short_writes_at_the_end;
    space: is_told;
    times: set_to_what_was_asked change_with_bytes change_of_folders before_1970;
    xattrs: are_set_read_listed_and_removed are_made_or_replaced room_for_them_is_looked_at too_large others_are_refused of_folders_and_links go_with_their_file are_copied;
    users: modes_are_kept owners_may_and_others_may_not sticky_folders who_owns_new_files set_user_id_is_cleared groups_of_owners;
}

use super::*;
use std::mem::offset_of;
use std::process::Command;

/// Names of the header, and what they are here: sizes and offsets.
fn layout() -> Vec<(&'static str, usize)> {
    vec![
        ("sizeof(struct ublksrv_ctrl_cmd)", size_of::<ControlCommand>()),
        ("offsetof(struct ublksrv_ctrl_cmd, queue_id)", offset_of!(ControlCommand, queue)),
        ("offsetof(struct ublksrv_ctrl_cmd, len)", offset_of!(ControlCommand, len_bytes)),
        ("offsetof(struct ublksrv_ctrl_cmd, addr)", offset_of!(ControlCommand, address)),
        ("offsetof(struct ublksrv_ctrl_cmd, data)", offset_of!(ControlCommand, data)),
        ("sizeof(struct ublksrv_ctrl_dev_info)", size_of::<DeviceInfo>()),
        ("offsetof(struct ublksrv_ctrl_dev_info, queue_depth)", offset_of!(DeviceInfo, depth)),
        ("offsetof(struct ublksrv_ctrl_dev_info, state)", offset_of!(DeviceInfo, state)),
        (
            "offsetof(struct ublksrv_ctrl_dev_info, max_io_buf_bytes)",
            offset_of!(DeviceInfo, buffer_bytes_max),
        ),
        ("offsetof(struct ublksrv_ctrl_dev_info, dev_id)", offset_of!(DeviceInfo, id)),
        ("offsetof(struct ublksrv_ctrl_dev_info, ublksrv_pid)", offset_of!(DeviceInfo, process)),
        ("offsetof(struct ublksrv_ctrl_dev_info, flags)", offset_of!(DeviceInfo, flags)),
        ("offsetof(struct ublksrv_ctrl_dev_info, ublksrv_flags)", offset_of!(DeviceInfo, mark)),
        ("sizeof(struct ublksrv_io_desc)", size_of::<Descriptor>()),
        ("offsetof(struct ublksrv_io_desc, nr_sectors)", offset_of!(Descriptor, sectors)),
        ("offsetof(struct ublksrv_io_desc, start_sector)", offset_of!(Descriptor, first_sector)),
        ("sizeof(struct ublksrv_io_cmd)", size_of::<QueueCommand>()),
        ("offsetof(struct ublksrv_io_cmd, tag)", offset_of!(QueueCommand, tag)),
        ("offsetof(struct ublksrv_io_cmd, result)", offset_of!(QueueCommand, result)),
        ("offsetof(struct ublksrv_io_cmd, addr)", offset_of!(QueueCommand, address)),
        ("offsetof(struct ublk_params, basic)", offset_of!(Parameters, basic)),
        ("offsetof(struct ublk_params, discard)", offset_of!(Parameters, discard)),
        ("sizeof(struct ublk_param_basic)", size_of::<BasicParameters>()),
        (
            "offsetof(struct ublk_param_basic, io_min_shift)",
            offset_of!(BasicParameters, least_transfer_shift),
        ),
        ("offsetof(struct ublk_param_basic, max_sectors)", offset_of!(BasicParameters, sectors_max)),
        ("offsetof(struct ublk_param_basic, dev_sectors)", offset_of!(BasicParameters, device_sectors)),
        ("sizeof(struct ublk_param_discard)", size_of::<DiscardParameters>()),
        (
            "offsetof(struct ublk_param_discard, discard_granularity)",
            offset_of!(DiscardParameters, granularity),
        ),
        (
            "offsetof(struct ublk_param_discard, max_write_zeroes_sectors)",
            offset_of!(DiscardParameters, zeroes_sectors_max),
        ),
        (
            "offsetof(struct ublk_param_discard, max_discard_segments)",
            offset_of!(DiscardParameters, segments_max),
        ),
        ("UBLK_MAX_QUEUE_DEPTH", DEPTH_MAX),
        ("UBLK_IO_OP_DISCARD", operation::DISCARD as usize),
        ("UBLK_IO_OP_WRITE_ZEROES", operation::WRITE_ZEROES as usize),
        ("UBLK_IO_F_FUA", operation::FLAG_FUA as usize),
        ("(UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD)", PARTS as usize),
        ("UBLK_ATTR_VOLATILE_CACHE", ATTRIBUTE_VOLATILE_CACHE as usize),
        ("UBLK_ATTR_FUA", ATTRIBUTE_FUA as usize),
        ("UBLK_S_DEV_DEAD", STATE_DEAD as usize),
    ]
}

/// Commands by the names of headers that are newer than 6.4.
const COMMANDS: &[(&str, u32)] = &[
    ("UBLK_U_CMD_GET_DEV_INFO", control::GET_DEV_INFO),
    ("UBLK_U_CMD_ADD_DEV", control::ADD_DEV),
    ("UBLK_U_CMD_DEL_DEV", control::DEL_DEV),
    ("UBLK_U_CMD_DEL_DEV_ASYNC", control::DEL_DEV_ASYNC),
    ("UBLK_U_CMD_START_DEV", control::START_DEV),
    ("UBLK_U_CMD_STOP_DEV", control::STOP_DEV),
    ("UBLK_U_CMD_SET_PARAMS", control::SET_PARAMS),
    ("UBLK_U_IO_FETCH_REQ", queue::FETCH_REQ),
    ("UBLK_U_IO_COMMIT_AND_FETCH_REQ", queue::COMMIT_AND_FETCH_REQ),
];

#[test]
fn it_is_what_the_header_says() {
    let header = "#include <stddef.h>\n#include <linux/ioctl.h>\n#include <linux/ublk_cmd.h>\n";
    let same = |(name, here): &(&str, usize)| format!("_Static_assert({name} == {here}, \"{name}\");\n");
    let command = |(name, here): &(&str, u32)| {
        format!("#ifdef {name}\n_Static_assert({name} == {here}u, \"{name}\");\n#endif\n")
    };
    let program: String = [header.to_string()]
        .into_iter()
        .chain(layout().iter().map(same))
        .chain(COMMANDS.iter().map(command))
        .chain(["int nothing;\n".to_string()])
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.c");
    let compile = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Command::new("cc").arg("-fsyntax-only").arg(&path).output()
    };
    match compile(header) {
        Ok(output) if output.status.success() => {}
        _ => return println!("SKIP ublk: there is no C compiler, or no linux/ublk_cmd.h"),
    }
    let output = compile(&program).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn commands_carry_direction_and_size() {
    assert_eq!(control::ADD_DEV, 0xC020_7504);
    assert_eq!(control::GET_DEV_INFO, 0x8020_7502);
    assert_eq!(queue::FETCH_REQ, 0xC010_7520);
    assert_eq!(queue::COMMIT_AND_FETCH_REQ, 0xC010_7521);
}

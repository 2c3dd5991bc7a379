//! Batches into the cache: one thread, all reads under way at once, and one for records that are neighbours in the log.

mod joined;

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::{LogAddress, PageId};
use aquifer_device::{DeviceError, ReadRequest};
use aquifer_log::RecordId;
use aquifer_map::Place;
use aquifer_sys::{Reservation, SignalsBlocked};

use crate::backing::WriterWait;
use crate::context::{Context, zeros};
use crate::error::FaultError;
use crate::fill::Fill;
use crate::gate::Gates;
use crate::pages::Pages;
use crate::room;

/// Pages that are filled together, at most. The device works at full depth over all of them.
const BATCH_MAX: usize = 256;
/// As many for each context: what they are read into comes on top of the budget, and contexts follow that.
const PAGES_PER_CONTEXT: usize = 8;
/// Small objects in place of each of these pages, at most: this many entries are held at a time.
const SMALL_PER_PAGE: usize = 8;

/// A page that this thread is filling, with where its bytes are.
struct Located<'a> {
    fill: Fill<'a>,
    place: Place,
}

/// What becomes of pages that were read.
enum Target<'a> {
    /// They stay in the object cache.
    Cache,
    /// They are given away, and are where they were.
    Program(&'a mut dyn FnMut(PageId, &[u8])),
}

impl Target<'_> {
    fn take(&mut self, pages: &Pages, mut fill: Fill<'_>, bytes: &[u8], context: &Context) {
        match self {
            Self::Cache => {
                fill.write_slot(bytes);
                pages.counters.prefetched.add(1);
                pages.residence.note_read_ahead(fill.slot());
                fill.publish_cached(context, None);
            }
            // The entry is held until they were copied: nobody changes them meanwhile.
            Self::Program(give) => {
                pages.counters.misses.add(1);
                give(fill.page(), bytes);
            }
        }
    }
}

/// Brings pages into the object cache. Pages that are in RAM or being brought in are skipped, and so is
/// what finds no room: it is a hint, and the page will be faulted in.
///
/// # Errors
/// The first page that could not be read; the others of the batch are brought in.
pub(crate) fn prefetch(
    pages: &Pages,
    gates: &Gates,
    wanted: &mut dyn Iterator<Item = PageId>,
) -> Result<(), FaultError> {
    read(pages, gates, wanted, Target::Cache)
}

/// Gives the bytes of pages away that are not in RAM, each while nobody can change them, and leaves no trace in RAM. Pages that are not given
/// are in RAM, or must be waited for.
///
/// # Errors
/// The first page that could not be read; the others are given.
pub(crate) fn read_through(
    pages: &Pages,
    gates: &Gates,
    wanted: &mut dyn Iterator<Item = PageId>,
    give: &mut dyn FnMut(PageId, &[u8]),
) -> Result<(), FaultError> {
    read(pages, gates, wanted, Target::Program(give))
}

fn read(
    pages: &Pages,
    gates: &Gates,
    wanted: &mut dyn Iterator<Item = PageId>,
    mut target: Target<'_>,
) -> Result<(), FaultError> {
    if pages.natives.any() {
        return Ok(());
    }
    let batch = (pages.contexts.len() * PAGES_PER_CONTEXT).min(BATCH_MAX);
    // Small objects that need no slots are read until they are as many bytes.
    let objects = if matches!(target, Target::Cache) { batch } else { batch * SMALL_PER_PAGE };
    let mut context = Context::new();
    let (mut outcome, mut buffer) = (Ok(()), None);
    loop {
        let _signals = SignalsBlocked::new();
        let _pass = gates.pass_in_fault();
        room::unmap_due_in_fault(pages);
        let mut fills = Vec::with_capacity(batch);
        let (mut bytes, mut more) = (0, false);
        for page in &mut *wanted {
            if pages.residence.find(page).is_some() {
                continue;
            }
            match begin_located(pages, page, &target, &mut context.scratch) {
                Ok(located) => {
                    bytes += located.as_ref().map_or(0, |located| located.fill.size().bytes);
                    fills.extend(located);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
            more = fills.len() >= objects || bytes >= batch * OS_PAGE_BYTES;
            if more {
                break;
            }
        }
        if !fills.is_empty() {
            outcome = outcome.and(finish_fills(pages, fills, &mut target, &mut buffer, &mut context));
        }
        if !more {
            return outcome;
        }
    }
}

/// Takes a page that is not in RAM, with a slot for it if it stays.
fn begin_located<'a>(
    pages: &'a Pages,
    page: PageId,
    target: &Target<'_>,
    scratch: &mut [u8],
) -> Result<Option<Located<'a>>, FaultError> {
    let Some(mut fill) = insert_for_fill(pages, page)? else { return Ok(None) };
    if matches!(target, Target::Cache) && !fill.try_place() {
        return Ok(None);
    }
    let place = pages.backing.locate_in_fault(page, scratch)?;
    Ok(Some(Located { fill, place }))
}

/// A page that is not in RAM. If the table has no room, one of its rivals leaves first.
fn insert_for_fill(pages: &Pages, page: PageId) -> Result<Option<Fill<'_>>, FaultError> {
    if let Some(fill) = Fill::try_begin(pages, page) {
        return Ok(Some(fill));
    }
    if pages.residence.find(page).is_some() {
        return Ok(None);
    }
    pages.backing.size_of(page.leaf()).ok_or(FaultError::NotAllocated(page))?;
    room::evict_rival_in_fault(pages, page, &mut WriterWait::default())?;
    Ok(Fill::try_begin(pages, page))
}

/// Reads what must be read, in one batch. The buffer is used again if it is long enough.
fn finish_fills(
    pages: &Pages,
    fills: Vec<Located<'_>>,
    target: &mut Target<'_>,
    buffer: &mut Option<Reservation>,
    context: &mut Context,
) -> Result<(), FaultError> {
    let pending: Vec<_> =
        fills.into_iter().filter_map(|located| fill_from_ram(pages, located, target, context)).collect();
    let range = |(located, address): &(Located<'_>, LogAddress)| {
        pages.backing.log().device_range(*address, located.place.span_bytes(located.fill.size().bytes))
    };
    let ranges: Vec<_> = pending.iter().map(range).collect();
    if ranges.is_empty() {
        return Ok(());
    }
    let (reads, found) = joined::join(&ranges);
    let bytes = reads.iter().map(|read| (read.end - read.start) as usize).sum();
    if buffer.as_ref().is_none_or(|buffer| buffer.len() < bytes) {
        // Straight from the kernel, and back to it: an allocator keeps what it was given back, for each thread, and that is in no budget.
        let new = Reservation::new(bytes, OS_PAGE_BYTES);
        *buffer = Some(new.map_err(|errno| FaultError::Map { page: pending[0].0.fill.page(), errno })?);
    }
    let buffer = buffer.as_ref().expect("made above");
    // SAFETY: the reservation is ours alone, holds zeros or what was read before, and outlives the requests.
    let mut rest = unsafe { std::slice::from_raw_parts_mut(buffer.base(), buffer.len()) };
    let mut requests: Vec<ReadRequest<'_>> = Vec::with_capacity(reads.len());
    for read in &reads {
        let (own, behind) = rest.split_at_mut((read.end - read.start) as usize);
        rest = behind;
        requests.push(ReadRequest::new(read.start, own));
    }
    pages.backing.log().device().read_batch(&mut requests);
    let (mut outcome, mut left) = (Ok(()), Vec::new());
    for ((located, address), found) in pending.into_iter().zip(found) {
        let request = &requests[found.read];
        let page = located.fill.page();
        let bytes = match &request.result {
            Ok(()) => Ok(&request.buf[found.range()]),
            // A neighbour may be what cannot be read.
            Err(_) if request.buf.len() > found.bytes => {
                left.push(page);
                continue;
            }
            Err(error) => Err(*error),
        };
        match finish_fill(pages, located, address, bytes, target, context) {
            Ok(true) => {}
            Ok(false) => left.push(page),
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    if matches!(target, Target::Program(_)) {
        return outcome;
    }
    // When all others are published: a slot may have to be waited for, and these hold some.
    left.into_iter().fold(outcome, |outcome, page| outcome.and(fill_singly(pages, page, context)))
}

/// Fills pages that are zero or still in a write buffer; gives back what the device must be asked for.
fn fill_from_ram<'a>(
    pages: &'a Pages,
    located: Located<'a>,
    target: &mut Target<'_>,
    context: &mut Context,
) -> Option<(Located<'a>, LogAddress)> {
    let Located { fill, place } = located;
    let Some(address) = place.address() else {
        let len = fill.size().bytes;
        target.take(pages, fill, &zeros()[..len], context);
        return None;
    };
    let (len, span) = (fill.size().bytes, place.span_bytes(fill.size().bytes));
    let id = RecordId::of_page(fill.page().0, len);
    match pages.backing.log().read_buffered_in_fault(address, span, id, &mut context.scratch) {
        Some(Ok(range)) if range.len() == len => {
            target.take(pages, fill, &context.scratch[range], context);
            None
        }
        _ => Some((Located { fill, place }, address)),
    }
}

/// Fills a page with what was read; false if its record is not there: the single path tells whether it was moved by the cleaner
/// or is damaged.
fn finish_fill(
    pages: &Pages,
    located: Located<'_>,
    address: LogAddress,
    bytes: Result<&[u8], DeviceError>,
    target: &mut Target<'_>,
    context: &Context,
) -> Result<bool, FaultError> {
    let fill = located.fill;
    let (page, len) = (fill.page(), fill.size().bytes);
    let bytes = bytes.map_err(|error| {
        pages.backing.log().count_io_error();
        FaultError::Device { page, error }
    })?;
    match pages.backing.log().find_in_fault(address, RecordId::of_page(page.0, len), bytes) {
        Ok(range) if range.len() == len => {
            target.take(pages, fill, &bytes[range], context);
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn fill_singly(pages: &Pages, page: PageId, context: &mut Context) -> Result<(), FaultError> {
    let Some(mut fill) = Fill::try_begin(pages, page) else { return Ok(()) };
    if !fill.try_place() {
        return Ok(());
    }
    fill.read_in_fault(context)?;
    fill.publish_cached(context, None);
    Ok(())
}

/// Reads ahead what walks ask for, until the heap closes.
pub(crate) fn run(pages: &Pages, gates: &Gates) {
    while let Some(walk) = pages.foresight.next_walk(|| gates.is_closing()) {
        let end = (pages.mapping.region_bytes() / OS_PAGE_BYTES) as u64;
        let mut wanted = walk.pages().filter(|&page| page.0 < end && pages.is_whole(page));
        // A page that cannot be read is one whose fault will say so.
        let _ = prefetch(pages, gates, &mut wanted);
    }
}

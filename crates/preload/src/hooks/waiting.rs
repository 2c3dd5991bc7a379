//! Locks on which the kernel lets threads wait: it looks at the lock itself, so that must be there.
//!
//! Taking a free lock needs no kernel. Only who has to wait pins it.

use libc::{
    c_int, clockid_t, pthread_barrier_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, sem_t, timespec,
};

use crate::hooks::missing;
use crate::real::real;
use crate::route::is_managed_address;
use crate::span::Pin;

/// Stands in front of a function that waits for a lock, by the one that only tries: what that says other than that it is
/// taken is the answer, such as that its owner has died.
macro_rules! waits {
    ($(fn $name:ident($lock:ident: $kind:ty $(, $more:ident: $type:ty)* $(; until $until:ident: $until_type:ty)?),
        $try:ident, $taken:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($lock: *mut $kind $(, $more: $type)* $(, $until: $until_type)?) -> c_int {
            type Real = unsafe extern "C" fn(*mut $kind $(, $type)* $(, $until_type)?) -> c_int;
            let Some(real) = real!($name: Real) else { return missing() };
            if !is_managed_address($lock as usize) $(&& !is_managed_address($until as usize))? {
                // SAFETY: passed on to the caller.
                return unsafe { real($lock $(, $more)* $(, $until)?) };
            }
            // SAFETY: passed on to the caller.
            let tried = unsafe { libc::$try($lock) };
            if !$taken(tried) {
                return tried;
            }
            let _pin = Pin::new($lock as usize, size_of::<$kind>());
            $(let _until = Pin::new($until as usize, size_of::<timespec>());)?
            // SAFETY: passed on to the caller.
            unsafe { real($lock $(, $more)* $(, $until)?) }
        }
    )*};
}

fn busy(tried: c_int) -> bool {
    tried == libc::EBUSY
}

fn refused(tried: c_int) -> bool {
    tried != 0
}

type Time = *const timespec;

waits! {
    fn pthread_mutex_lock(lock: pthread_mutex_t), pthread_mutex_trylock, busy;
    fn pthread_mutex_timedlock(lock: pthread_mutex_t; until time: Time), pthread_mutex_trylock, busy;
    fn pthread_mutex_clocklock(lock: pthread_mutex_t, clock: clockid_t; until time: Time), pthread_mutex_trylock, busy;
    fn pthread_rwlock_rdlock(lock: pthread_rwlock_t), pthread_rwlock_tryrdlock, busy;
    fn pthread_rwlock_timedrdlock(lock: pthread_rwlock_t; until time: Time), pthread_rwlock_tryrdlock, busy;
    fn pthread_rwlock_clockrdlock(lock: pthread_rwlock_t, clock: clockid_t; until time: Time),
        pthread_rwlock_tryrdlock, busy;
    fn pthread_rwlock_wrlock(lock: pthread_rwlock_t), pthread_rwlock_trywrlock, busy;
    fn pthread_rwlock_timedwrlock(lock: pthread_rwlock_t; until time: Time), pthread_rwlock_trywrlock, busy;
    fn pthread_rwlock_clockwrlock(lock: pthread_rwlock_t, clock: clockid_t; until time: Time),
        pthread_rwlock_trywrlock, busy;
    fn sem_wait(lock: sem_t), sem_trywait, refused;
    fn sem_timedwait(lock: sem_t; until time: Time), sem_trywait, refused;
    fn sem_clockwait(lock: sem_t, clock: clockid_t; until time: Time), sem_trywait, refused;
}

const COND: usize = size_of::<pthread_cond_t>();
const MUTEX: usize = size_of::<pthread_mutex_t>();
const TIME: usize = size_of::<timespec>();

// The locks of C11 are those of POSIX under other names, but the C library calls itself for them.
hook! {
    fn pthread_cond_wait(cond: *mut pthread_cond_t, lock: *mut pthread_mutex_t) -> c_int; cond, COND; lock, MUTEX;
    fn pthread_cond_timedwait(cond: *mut pthread_cond_t, lock: *mut pthread_mutex_t, until: Time) -> c_int;
        cond, COND; lock, MUTEX; until, TIME;
    fn pthread_cond_clockwait(cond: *mut pthread_cond_t, lock: *mut pthread_mutex_t, clock: clockid_t, until: Time)
        -> c_int; cond, COND; lock, MUTEX; until, TIME;
    fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int; barrier, size_of::<pthread_barrier_t>();
    fn pthread_once(once: *mut c_int, run: extern "C" fn()) -> c_int; once, 4;
    fn call_once(once: *mut c_int, run: extern "C" fn()) -> (); once, 4;
    fn mtx_lock(lock: *mut pthread_mutex_t) -> c_int; lock, MUTEX;
    fn mtx_timedlock(lock: *mut pthread_mutex_t, until: Time) -> c_int; lock, MUTEX; until, TIME;
    fn cnd_wait(cond: *mut pthread_cond_t, lock: *mut pthread_mutex_t) -> c_int; cond, COND; lock, MUTEX;
    fn cnd_timedwait(cond: *mut pthread_cond_t, lock: *mut pthread_mutex_t, until: Time) -> c_int;
        cond, COND; lock, MUTEX; until, TIME;
}

//! Lists of one thread's live objects, such as its waiting requests.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use slab::Slab;

/// A list owned by one thread. Dropping an [`Entry`] removes the entry.
#[derive(Debug)]
pub(crate) struct Registry<T>(Rc<RefCell<Slab<T>>>);

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Registry(Rc::default())
    }
}

impl<T> Registry<T> {
    pub(crate) fn enter(&self, content: T) -> Entry<T> {
        let key = self.0.borrow_mut().insert(content);
        Entry { list: Rc::clone(&self.0), key }
    }

    /// All entries of the list. Do not add or drop entries while the result is borrowed.
    pub(crate) fn all(&self) -> Ref<'_, Slab<T>> {
        self.0.borrow()
    }
}

#[derive(Debug)]
pub(crate) struct Entry<T> {
    list: Rc<RefCell<Slab<T>>>,
    key: usize,
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let content = self.list.borrow_mut().remove(self.key);
        // The list must not be borrowed here, because dropping the content may drop other entries.
        drop(content);
    }
}

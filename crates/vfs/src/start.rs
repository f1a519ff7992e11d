//! Starting requests in place: a future that is done at its first poll, as a warm READ's is, has been in memory that the one
//! before it had. The protocol servers' connections begin their requests by it. It knows nothing of what they do.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What is left of a request that waits.
pub type Parked = Box<dyn Future<Output = ()> + Unpin>;

/// Starts requests of one kind.
pub trait Start<A> {
    /// Polls the request that `with` makes once: it is done, or what is left of it.
    fn start(&mut self, with: A, cx: &mut Context<'_>) -> Option<Parked>;
}

/// Starts what `make` makes, one after another in the same place as long as none of them waits.
pub fn in_place<A, F, M>(make: M) -> Box<dyn Start<A>>
where
    M: FnMut(A) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    Box::new(InPlace { make, place: None })
}

struct InPlace<M, F> {
    make: M,
    place: Option<Place<F>>,
}

impl<A, M, F> Start<A> for InPlace<M, F>
where
    M: FnMut(A) -> F,
    F: Future<Output = ()> + 'static,
{
    fn start(&mut self, with: A, cx: &mut Context<'_>) -> Option<Parked> {
        let mut place = self.place.take().unwrap_or_else(|| Place(Box::pin(None)));
        place.0.set(Some((self.make)(with)));
        match Pin::new(&mut place).poll(cx) {
            // What it held is given up now, and the place kept.
            Poll::Ready(()) => {
                place.0.set(None);
                self.place = Some(place);
                None
            }
            Poll::Pending => Some(Box::new(place)),
        }
    }
}

/// Where a future is.
struct Place<F>(Pin<Box<Option<F>>>);

impl<F: Future<Output = ()>> Future for Place<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.as_mut().as_pin_mut() {
            Some(future) => future.poll(cx),
            None => Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;

    /// Says where it is, and that it is gone.
    struct Heard(Rc<RefCell<Vec<String>>>, u32);

    impl Drop for Heard {
        fn drop(&mut self) {
            self.0.borrow_mut().push(format!("{} gone", self.1));
        }
    }

    #[test]
    fn what_is_done_at_once_is_gone_at_once_and_what_waits_goes_on_by_itself() {
        let said = Rc::<RefCell<Vec<String>>>::default();
        let heard = Rc::clone(&said);
        let mut start = in_place(move |number: u32| {
            let heard = Heard(Rc::clone(&heard), number);
            async move {
                let mut polled = false;
                std::future::poll_fn(|_| {
                    let ready = heard.1 != 2 || polled;
                    polled = true;
                    if ready { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                heard.0.borrow_mut().push(format!("{} done", heard.1));
            }
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(start.start(1, &mut cx).is_none());
        let mut parked = start.start(2, &mut cx).expect("it waits");
        assert!(start.start(3, &mut cx).is_none());
        assert_eq!(*said.borrow(), ["1 done", "1 gone", "3 done", "3 gone"]);
        assert!(Pin::new(&mut parked).poll(&mut cx).is_ready());
        drop(parked);
        assert_eq!(said.borrow().get(4..), Some(&["2 done".to_owned(), "2 gone".to_owned()][..]));
    }
}

//! Messages with file descriptors between two processes, over a Unix socket (`SCM_RIGHTS`).

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Most descriptors of a message (`SCM_MAX_FD` of Linux).
pub const MAX_DESCRIPTORS: usize = 253;
/// Largest message in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of the length before a message.
const LENGTH_BYTES: usize = 4;

/// One end of a connection to another process.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    /// A channel over a connected socket, in blocking mode.
    #[must_use]
    pub fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Sends a message and duplicates of at most [`MAX_DESCRIPTORS`] descriptors.
    ///
    /// # Errors
    /// The other end is closed, or the message is too large.
    pub fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if message.len() > MAX_BYTES || descriptors.len() > MAX_DESCRIPTORS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let length = (message.len() as u32).to_le_bytes();
        let bytes = [&length[..], message].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = [IoSlice::new(&bytes[sent..])];
            match sendmsg(&self.0, &rest, &mut control, SendFlags::NOSIGNAL) {
                Ok(more) => {
                    sent += more;
                    // With the first bytes the descriptors are on their way.
                    control.clear();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for a message and its descriptors; `None` at the end. Descriptors are closed on exec.
    ///
    /// # Errors
    /// No message within the timeout (`WouldBlock`), or the connection was aborted.
    pub fn receive(
        &self,
        timeout: Option<Duration>,
    ) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        self.0.set_read_timeout(timeout)?;
        let (mut length, mut descriptors) = ([0; LENGTH_BYTES], Vec::new());
        if !self.fill(&mut length, &mut descriptors)? {
            return Ok(None);
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut message = vec![0; length];
        if !self.fill(&mut message, &mut descriptors)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some((message, descriptors)))
    }

    /// Fills the buffer; `false` if the connection ended before the first byte.
    fn fill(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
        let mut filled = 0;
        while filled < buffer.len() {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut rest = [IoSliceMut::new(&mut buffer[filled..])];
            let received = match recvmsg(&self.0, &mut rest, &mut control, RecvFlags::CMSG_CLOEXEC)
            {
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(more) = message {
                    descriptors.extend(more);
                }
            }
            if received.flags.contains(ReturnFlags::CTRUNC) {
                return Err(io::Error::other("file descriptors were lost: too many are open"));
            }
            match received.bytes {
                0 if filled == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => filled += more,
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn messages_arrive_in_order_with_their_descriptors() {
        let (one, other) = pair();
        let mut files: Vec<File> = (0..3).map(|_| tempfile::tempfile().unwrap()).collect();
        let long = vec![7; 300_000];
        let sender = std::thread::spawn(move || {
            let fds: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
            one.send(b"two", &fds[..2]).unwrap();
            one.send(&long, &fds[2..]).unwrap();
            one.send(b"", &[]).unwrap();
            files[2].write_all(b"x").unwrap();
        });
        let (message, descriptors) = other.receive(None).unwrap().unwrap();
        assert_eq!((&message[..], descriptors.len()), (&b"two"[..], 2));
        let (message, mut descriptors) = other.receive(None).unwrap().unwrap();
        assert_eq!((message.len(), descriptors.len()), (300_000, 1));
        assert!(other.receive(None).unwrap().unwrap().0.is_empty());
        sender.join().unwrap();
        assert!(other.receive(None).unwrap().is_none());
        let mut file = File::from(descriptors.remove(0));
        std::io::Seek::rewind(&mut file).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn a_silent_peer_and_a_half_message_are_errors() {
        let (one, other) = pair();
        let error = other.receive(Some(Duration::from_millis(10))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        one.0.try_clone().unwrap().write_all(&[9, 0]).unwrap();
        drop(one);
        assert_eq!(other.receive(None).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

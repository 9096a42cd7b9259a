//! One connection to one server process. It never connects again by itself: what was found out about
//! the server holds as long as the wire does, and not a moment longer.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::error::Trouble;
use crate::target::{Address, Place};

/// Requests that may wait to be written.
const WAITING_MAX: usize = 1024;

/// A connection that requests of many tasks share.
pub(crate) struct Wire {
    connection: MultiplexedConnection,
    /// Reads and writes. It would wait for answers that never come, so it ends with the wire.
    driver: AbortHandle,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Wire {
    /// Connects and logs in. The caller limits the time.
    pub(crate) async fn open(place: &Place, tls: Option<&TlsConnector>) -> Result<Self, Trouble> {
        let stream = open_stream(&place.address, tls).await?;
        let config = AsyncConnectionConfig::new()
            // Every step has a limit of its own, which knows what to do with a late answer.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WAITING_MAX);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&place.login, stream, config).await?;
        let driver = tokio::spawn(driver).abort_handle();
        Ok(Self { connection, driver })
    }

    /// Sends one command.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, Trouble> {
        match self.connection.clone().send_packed_command(command).await? {
            Value::ServerError(error) => Err(Trouble::Refused(error)),
            value => Ok(value),
        }
    }

    /// Sends commands together, and returns an answer for each, refusals among them.
    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Trouble> {
        let count = commands.len();
        let answers = self.connection.clone().send_packed_commands(commands, 0, count).await?;
        if answers.len() == count {
            Ok(answers)
        } else {
            Err(Trouble::Unexpected("one answer for each command"))
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn open_stream(
    address: &Address,
    tls: Option<&TlsConnector>,
) -> Result<Box<dyn Stream>, Trouble> {
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Address::Tcp { host, port, tls: wanted } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            match (wanted, tls) {
                (false, _) => Ok(Box::new(stream)),
                (true, Some(tls)) => {
                    let name = ServerName::try_from(host.clone())
                        .map_err(|error| Trouble::Reach(error.to_string()))?;
                    Ok(Box::new(tls.connect(name, stream).await?))
                }
                (true, None) => Err(Trouble::Reach("there are no certificates for TLS".to_owned())),
            }
        }
    }
}

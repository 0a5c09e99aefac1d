using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Laurel
{
    /// <summary>A transport over HttpClient. One serves any number of requests at once.</summary>
    public sealed class HttpTransport : ITransport, IDisposable
    {
        private readonly HttpClient client;

        /// <summary>Makes one.</summary>
        public HttpTransport()
        {
            // A redirect would take the token to another place.
            var handler = new HttpClientHandler { AllowAutoRedirect = false, UseCookies = false };
            client = new HttpClient(handler)
            {
                MaxResponseContentBufferSize = LaurelClient.AnswerBytesMax,
                Timeout = Timeout.InfiniteTimeSpan,
            };
        }

        /// <summary>Ends its connections.</summary>
        public void Dispose()
        {
            client.Dispose();
        }

        /// <summary>Sends one request; see <see cref="ITransport.PostAsync"/>.</summary>
        public async Task<HttpAnswer> PostAsync(HttpPost request, CancellationToken cancel)
        {
            using (var message = new HttpRequestMessage(HttpMethod.Post, request.Url))
            using (var deadline = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                message.Content = new StringContent(request.Body, Encoding.UTF8, "application/json");
                message.Headers.Accept.ParseAdd("application/json");
                message.Headers.Add("X-Request-Id", request.RequestId);
                if (request.Token != null)
                {
                    message.Headers.Authorization =
                        new AuthenticationHeaderValue("Bearer", request.Token);
                }
                // HttpClient would send a request a second time where a connection that it kept has
                // ended, and then say of the second one alone that nothing was sent.
                message.Headers.ConnectionClose = true;
                deadline.CancelAfter(request.Timeout);
                try
                {
                    using (var response = await client.SendAsync(message, deadline.Token))
                    {
                        return await AnswerAsync(response);
                    }
                }
                catch (OperationCanceledException error)
                {
                    cancel.ThrowIfCancellationRequested();
                    throw new NoAnswerException("no answer in time", true, error);
                }
                catch (Exception error) when (error is HttpRequestException
                    || error is WebException || error is IOException
                    || error is ObjectDisposedException)
                {
                    cancel.ThrowIfCancellationRequested();
                    throw new NoAnswerException("no answer: " + Causes(error).Last().Message,
                        MayBeSent(error), error);
                }
            }
        }

        private static async Task<HttpAnswer> AnswerAsync(HttpResponseMessage response)
        {
            byte[] body = await response.Content.ReadAsByteArrayAsync();
            IEnumerable<string> values;
            bool hasRetryAfter = response.Headers.TryGetValues("Retry-After", out values);
            return new HttpAnswer((int)response.StatusCode, Encoding.UTF8.GetString(body),
                hasRetryAfter ? values.First() : null);
        }

        /// <summary>False if there was no connection over which a byte could go.</summary>
        private static bool MayBeSent(Exception error)
        {
            foreach (Exception cause in Causes(error))
            {
                var web = cause as WebException;
                var socket = cause as SocketException;
                if (web != null && (web.Status == WebExceptionStatus.NameResolutionFailure
                    || web.Status == WebExceptionStatus.ConnectFailure
                    || web.Status == WebExceptionStatus.TrustFailure))
                {
                    return false;
                }
                if (socket != null && (socket.SocketErrorCode == SocketError.ConnectionRefused
                    || socket.SocketErrorCode == SocketError.HostNotFound
                    || socket.SocketErrorCode == SocketError.TryAgain))
                {
                    return false;
                }
            }
            return true;
        }

        private static IEnumerable<Exception> Causes(Exception error)
        {
            for (; error != null; error = error.InnerException)
            {
                yield return error;
            }
        }
    }
}

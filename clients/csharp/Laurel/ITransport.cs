using System;
using System.Threading;
using System.Threading.Tasks;

namespace Laurel
{
    /// <summary>The way to the server: <see cref="HttpTransport"/>, or one of your own.</summary>
    public interface ITransport
    {
        /// <summary>
        /// Sends one request and returns the whole answer, whatever its status. It follows no
        /// redirect and repeats nothing. Throws <see cref="NoAnswerException"/> if no whole answer
        /// came in time or it has over <see cref="LaurelClient.AnswerBytesMax"/>, and OperationCanceledException if the caller gave up.
        /// </summary>
        Task<HttpAnswer> PostAsync(HttpPost request, CancellationToken cancel);
    }

    /// <summary>A request by POST with a body of application/json in UTF-8.</summary>
    public sealed class HttpPost
    {
        /// <summary>The address.</summary>
        public Uri Url { get; internal set; }

        /// <summary>The body.</summary>
        public string Body { get; internal set; }

        /// <summary>The access token, for Authorization: Bearer; null without one.</summary>
        public string Token { get; internal set; }

        /// <summary>The value of X-Request-Id.</summary>
        public string RequestId { get; internal set; }

        /// <summary>The time for all of it, from the connection to the last byte of the answer.</summary>
        public TimeSpan Timeout { get; internal set; }
    }

    /// <summary>An answer.</summary>
    public sealed class HttpAnswer
    {
        /// <summary>Makes one; <paramref name="retryAfter"/> is null without that header.</summary>
        public HttpAnswer(int status, string body, string retryAfter)
        {
            Status = status;
            Body = body;
            RetryAfter = retryAfter;
        }

        /// <summary>The status.</summary>
        public int Status { get; private set; }

        /// <summary>The body, read as UTF-8.</summary>
        public string Body { get; private set; }

        /// <summary>The header Retry-After; null without it.</summary>
        public string RetryAfter { get; private set; }
    }
}

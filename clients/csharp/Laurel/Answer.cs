using System;
using System.Globalization;
using System.Linq;

namespace Laurel
{
    /// <summary>Answers of GraphQL over HTTP, and those of proxies on the way.</summary>
    internal static class Answer
    {
        /// <summary>The longest Retry-After that is believed.</summary>
        private static readonly TimeSpan RetryAfterMax = TimeSpan.FromHours(1);

        /// <summary>Reads the data of an answer without errors. Throws LaurelException.</summary>
        internal static T Read<T>(HttpAnswer answer, Func<Json, T> read)
        {
            LaurelException failure;
            try
            {
                Json body = Json.Parse(answer.Body);
                if (body["errors"].IsNull)
                {
                    return read(body["data"]);
                }
                failure = OfErrors(body["errors"]);
            }
            catch (FormatException error)
            {
                failure = OfStatus(answer.Status, error);
            }
            failure.Status = answer.Status;
            failure.RetryAfter = RetryAfter(answer.RetryAfter);
            throw failure;
        }

        private static LaurelException OfErrors(Json errors)
        {
            Json first = errors.Items.FirstOrDefault();
            if (first == null)
            {
                throw new FormatException("no error among errors");
            }
            Json extensions = first["extensions"];
            string code = extensions["code"].Text;
            return new LaurelException(code, first["message"].Text)
            {
                Argument = extensions["argument"].TextOrNull,
                MayBeDone = code == "TIMEOUT" || code == "INTERNAL",
            };
        }

        /// <summary>An answer that the server did not write, or not for a request of GraphQL.</summary>
        private static LaurelException OfStatus(int status, FormatException error)
        {
            string message = "status " + status + " without an answer of GraphQL: " + error.Message;
            return new LaurelException(CodeOfStatus(status), message, error) { MayBeDone = true };
        }

        private static string CodeOfStatus(int status)
        {
            switch (status)
            {
                case 401:
                    return "UNAUTHENTICATED";
                case 403:
                    return "FORBIDDEN";
                case 413:
                    return "LIMIT_EXCEEDED";
                case 429:
                    return "RATE_LIMITED";
                case 408:
                case 504:
                    return "TIMEOUT";
                case 502:
                case 503:
                    return "UNAVAILABLE";
                default:
                    return "BAD_ANSWER";
            }
        }

        /// <summary>The time of a header Retry-After, in seconds or until a date.</summary>
        private static TimeSpan? RetryAfter(string header)
        {
            long seconds;
            DateTimeOffset until;
            TimeSpan time;
            CultureInfo culture = CultureInfo.InvariantCulture;
            if (long.TryParse(header, NumberStyles.None, culture, out seconds))
            {
                time = TimeSpan.FromSeconds(Math.Min(seconds, RetryAfterMax.TotalSeconds));
            }
            else if (DateTimeOffset.TryParseExact(
                header, "r", culture, DateTimeStyles.AssumeUniversal, out until))
            {
                time = until - DateTimeOffset.UtcNow;
            }
            else
            {
                return null;
            }
            time = time < TimeSpan.Zero ? TimeSpan.Zero : time;
            return time > RetryAfterMax ? RetryAfterMax : time;
        }
    }
}

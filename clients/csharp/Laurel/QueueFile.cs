using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace Laurel
{
    /// <summary>
    /// The file of a queue: the scores in order, as JSON. A write replaces the whole file, so that a
    /// reader finds the old content or the new one, whenever the app or the device dies.
    /// </summary>
    internal sealed class QueueFile
    {
        private const long Version = 1;

        private readonly string path;

        internal QueueFile(string path)
        {
            this.path = Path.GetFullPath(path);
        }

        /// <summary>
        /// The scores; none without a file. Throws InvalidDataException for a file that is not a
        /// queue's or has over so many bytes.
        /// </summary>
        internal List<QueuedScore> Read(int bytesMax)
        {
            var file = new FileInfo(path);
            if (!file.Exists)
            {
                return new List<QueuedScore>();
            }
            if (file.Length > bytesMax)
            {
                throw new InvalidDataException(path + " has over " + bytesMax + " bytes");
            }
            try
            {
                Json content = Json.Parse(File.ReadAllText(path, new UTF8Encoding(false, true)));
                if (content["version"].Long != Version)
                {
                    throw new FormatException("expected version " + Version);
                }
                return content["scores"].Items.Select(QueuedScore.Of).ToList();
            }
            catch (ArgumentException error)
            {
                throw new InvalidDataException(path + " is no queue of scores", error);
            }
            catch (FormatException error)
            {
                throw new InvalidDataException(path + " is no queue of scores", error);
            }
        }

        /// <summary>Writes the scores, and returns once the disk has them.</summary>
        internal void Write(IEnumerable<QueuedScore> scores)
        {
            string written = path + ".new";
            byte[] content = Encoding.UTF8.GetBytes(Json.Write(new Dictionary<string, object>
            {
                { "version", Version },
                { "scores", scores.Select(score => score.Fields()).ToList() },
            }));
            using (var file = new FileStream(written, FileMode.Create, FileAccess.Write))
            {
                file.Write(content, 0, content.Length);
                file.Flush(true);
            }
            if (File.Exists(path))
            {
                File.Replace(written, path, null);
            }
            else
            {
                File.Move(written, path);
            }
        }
    }
}

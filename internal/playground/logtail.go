package playground

import (
	"errors"
	"io"
	"os"
	"strings"
)

const (
	// logTailBytes is the maximum number of bytes to read from a log. logLineBytes is the maximum
	// number of bytes to show of one line.
	logTailBytes = 64 << 10
	logLineBytes = 1000
)

// readLogTail returns the last lines of a log file, starting at the offset start.
func readLogTail(path string, start int64, lines int) ([]string, error) {
	raw, err := readFrom(path, start)
	if err != nil {
		return nil, err
	}
	text := strings.TrimRight(string(raw), "\n")
	if text == "" {
		return nil, nil
	}
	all := strings.Split(text, "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	for i, line := range all {
		if len(line) > logLineBytes {
			all[i] = strings.ToValidUTF8(line[:logLineBytes], "") + "..."
		}
	}
	return all, nil
}

// readFrom returns the content of a file from the offset start to the end. If that is more than
// logTailBytes, it returns only the last logTailBytes.
func readFrom(path string, start int64) (raw []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	start = max(start, info.Size()-logTailBytes)
	return io.ReadAll(io.NewSectionReader(file, start, info.Size()-start))
}

package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// ignored lists the files and directories that Helm does not pack. The names of directories end
// with a slash.
type ignored []string

// readIgnored reads the chart's .helmignore file. It supports only plain names: a pattern with a
// directory is an error.
func readIgnored(dir fs.FS) (ignored, error) {
	raw, err := fs.ReadFile(dir, ignore)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of ignored files: %w", err)
	}
	var out ignored
	for line := range strings.Lines(string(raw)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if strings.Contains(strings.TrimSuffix(name, "/"), "/") || strings.HasPrefix(name, "!") {
			return nil, fmt.Errorf("%s: %q is more than a name", ignore, name)
		}
		out = append(out, name)
	}
	return out, nil
}

// has reports whether Helm ignores a file or directory.
func (i ignored) has(entry fs.DirEntry) bool {
	for _, pattern := range i {
		name, onlyDirs := strings.CutSuffix(pattern, "/")
		if onlyDirs && !entry.IsDir() {
			continue
		}
		if match, err := path.Match(name, entry.Name()); err == nil && match {
			return true
		}
	}
	return false
}

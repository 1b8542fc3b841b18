package decisionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// fileMode lets the owner alone read the file: it has the names of everybody's pods.
const fileMode = 0o600

// File is a file of lines that is rotated by size: when the next line would make it too large it is renamed to its name with
// ".1" at the end, what had that name to ".2", and so on. Each Write is a whole number of lines, which stay together. Only one
// goroutine may use it.
type File struct {
	path    string
	most    int64
	backups int
	// head writes what each new file begins with; nil for nothing.
	head func(io.Writer) error

	file *os.File
	size int64
	// headed is how much of the size is what it begins with, which does not count towards most.
	headed int64
	// cut is true where the file may end in the middle of a line.
	cut bool
	// grows is false for a device or a pipe, which has no size and is never rotated.
	grows bool
}

// OpenFile opens a file to append to. It grows to most bytes, and to one line at least, and backups older ones are kept
// beside it. A line that was cut off when a process ended is ended, so that those after it can be read.
func OpenFile(path string, most int64, backups int) (*File, error) {
	f := &File{path: path, most: most, backups: backups}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

// BeginWith has each file that a Write makes begin with what head writes, whole lines or nothing. It is called by the goroutine that calls
// Write.
func (f *File) BeginWith(head func(io.Writer) error) { f.head = head }

// open opens the file of the name, or makes it.
func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.size, f.headed, f.cut, f.grows = file, info.Size(), 0, false, info.Mode().IsRegular()
	if !f.grows || f.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, f.size-1); err != nil {
		return errors.Join(fmt.Errorf("read the end of %s: %w", f.path, err), f.Close())
	}
	f.cut = last[0] != '\n'
	return nil
}

// Write appends lines, in a new file where this one has no room. After an error, what has been written of them is ended by
// the next Write.
func (f *File) Write(lines []byte) (int, error) {
	if f.file != nil && f.grows && f.size > f.headed && f.size-f.headed+int64(len(lines)) > f.most {
		if err := f.rotate(); err != nil {
			return 0, fmt.Errorf("rotate %s: %w", f.path, err)
		}
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	if f.head != nil && f.grows && f.size == 0 {
		if err := f.begin(); err != nil {
			return 0, fmt.Errorf("begin %s: %w", f.path, err)
		}
	}
	if f.cut {
		if _, err := f.file.WriteString("\n"); err != nil {
			return 0, err
		}
		f.size++
		f.cut = false
	}
	n, err := f.file.Write(lines)
	f.size += int64(n)
	f.cut = err != nil && n > 0
	return n, err
}

// begin writes what a file begins with. Where that fails, an empty file is left, so that the next Write tries again.
func (f *File) begin() error {
	var first bytes.Buffer
	if err := f.head(&first); err != nil {
		return err
	}
	if _, err := f.file.Write(first.Bytes()); err != nil {
		return errors.Join(err, f.file.Truncate(0))
	}
	f.size += int64(first.Len())
	f.headed = int64(first.Len())
	return nil
}

// rotate moves the file out of the way; the next Write makes a new one. What fails is tried again with the next line, so that
// the file never grows past its size.
func (f *File) rotate() error {
	for i := f.backups - 1; i >= 1; i-- {
		if err := os.Rename(f.backup(i), f.backup(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	move := func() error { return os.Rename(f.path, f.backup(1)) }
	if f.backups < 1 {
		move = func() error { return os.Remove(f.path) }
	}
	// Where the file has been taken away, there is nothing to move.
	if err := move(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.Close()
}

func (f *File) backup(i int) string { return f.path + "." + strconv.Itoa(i) }

// Close closes the file. A Write opens it again.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.size, f.headed, f.cut = nil, 0, 0, false
	return err
}

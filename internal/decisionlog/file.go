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

// fileMode permits access only to the owner, because the file contains the names of all users'
// pods.
const fileMode = 0o600

// File is a file of lines that is rotated by size. If the next lines would make the file too large,
// Write renames it to its name plus ".1". An earlier ".1" becomes ".2", and so on. Write never
// splits the lines of one call between two files. Only one goroutine may use a File.
type File struct {
	// path is the name of the file.
	path string
	// most is the maximum size in bytes, without the head.
	most int64
	// backups is the maximum number of renamed files.
	backups int
	// head writes the first lines of each new file. It may be nil.
	head func(io.Writer) error

	file *os.File
	size int64
	// headed is the size of the head in bytes.
	headed int64
	// cut is true if the file may end in the middle of a line.
	cut bool
	// grows is false for a device or a pipe, which has no size and is never rotated.
	grows bool
}

// OpenFile opens a file for appending, or creates it. The file grows to most bytes, or to the size
// of a single Write if that is larger. Up to backups renamed files are kept. If an earlier process
// left an incomplete last line, the next Write first adds a newline, so that later lines can be
// read.
func OpenFile(path string, most int64, backups int) (*File, error) {
	f := &File{path: path, most: most, backups: backups}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

// BeginWith sets the function that writes the first lines of each new file. head must write whole
// lines or nothing. Write calls it in the same goroutine.
func (f *File) BeginWith(head func(io.Writer) error) { f.head = head }

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

// Write appends lines, each with its newline. If the file is full, Write rotates it first. If an
// error leaves an incomplete line, the next Write first adds a newline.
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

// begin writes the head. After an error, the file is empty, so that the next Write writes the head
// again.
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

// rotate renames the file and closes it. The next Write creates a new file. After an error, each
// further Write tries to rotate first, so that the file does not exceed its maximum size.
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
	// If the file was deleted, there is nothing to rename.
	if err := move(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.Close()
}

func (f *File) backup(i int) string { return f.path + "." + strconv.Itoa(i) }

// Close closes the file. A later Write opens the file again.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.size, f.headed, f.cut = nil, 0, 0, false
	return err
}

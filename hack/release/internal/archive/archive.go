package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

const dirMode = fs.FileMode(0o755)

// File is a file to add to an archive.
type File struct {
	// Name is the path of the file in the archive, with slashes.
	Name string
	// Mode has the permission bits of the file.
	Mode fs.FileMode
	// Content is the content of the file.
	Content []byte
}

// TarGz writes a compressed tar archive to w. An entry for each directory precedes the files in the
// directory. when is the modification time of all entries.
func TarGz(w io.Writer, when time.Time, files []File) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	files, dirs, err := sorted(files)
	if err != nil {
		return err
	}
	header := func(name string, mode fs.FileMode) *tar.Header {
		return &tar.Header{Name: name, Mode: int64(mode.Perm()), ModTime: when.UTC().Truncate(time.Second), Format: tar.FormatUSTAR}
	}
	for _, dir := range dirs {
		h := header(dir+"/", dirMode)
		h.Typeflag = tar.TypeDir
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", dir, err)
		}
	}
	for _, f := range files {
		h := header(f.Name, f.Mode)
		h.Typeflag, h.Size = tar.TypeReg, int64(len(f.Content))
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := archive.Write(f.Content); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	return nil
}

// Zip writes a zip archive to w. when is the modification time of all entries.
func Zip(w io.Writer, when time.Time, files []File) error {
	archive := zip.NewWriter(w)
	files, _, err := sorted(files)
	if err != nil {
		return err
	}
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: when.UTC().Truncate(time.Second)}
		header.SetMode(f.Mode.Perm())
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := entry.Write(f.Content); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	return nil
}

// sorted returns the files sorted by name, and the names of all directories that contain files.
func sorted(files []File) (byName []File, dirs []string, err error) {
	byName = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range byName {
		if !fs.ValidPath(f.Name) || f.Name == "." {
			return nil, nil, fmt.Errorf("%q is no path of an archive", f.Name)
		}
		if i > 0 && byName[i-1].Name == f.Name {
			return nil, nil, fmt.Errorf("%s is to be packed twice", f.Name)
		}
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return byName, slices.Compact(dirs), nil
}

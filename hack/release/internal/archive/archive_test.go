package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type packer func(io.Writer, time.Time, []File) error

func packed(t *testing.T, pack packer, when time.Time, files []File) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := pack(&out, when, files); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func someFiles() []File {
	return []File{
		{Name: "b/c/tool", Mode: 0o755, Content: []byte("a program")},
		{Name: "LICENSE", Mode: 0o644, Content: []byte("free")},
		{Name: "b/a", Mode: 0o644},
	}
}

func commitTime() time.Time {
	return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
}

// TestSameBytes checks that the bytes of an archive do not depend on the order of the files, the
// time zone or the current time.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	for name, pack := range map[string]packer{"tar": TarGz, "zip": Zip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := packed(t, pack, commitTime(), someFiles())
			turned := someFiles()
			slices.Reverse(turned)
			elsewhere := commitTime().In(time.FixedZone("elsewhere", 3600))
			if got := packed(t, pack, elsewhere, turned); !bytes.Equal(got, want) {
				t.Error("the same files make another archive")
			}
			if got := packed(t, pack, commitTime().Add(time.Hour), turned); bytes.Equal(got, want) {
				t.Error("the archive does not have the time that is given")
			}
		})
	}
}

func TestTarGz(t *testing.T) {
	t.Parallel()
	raw, err := gzip.NewReader(bytes.NewReader(packed(t, TarGz, commitTime(), someFiles())))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for archive := tar.NewReader(raw); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(commitTime()) {
			t.Errorf("%s is of %d:%d (%s), %s", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name+" "+string(content))
	}
	want := []string{
		"drwxr-xr-x b/ ", "drwxr-xr-x b/c/ ", "-rw-r--r-- LICENSE free", "-rw-r--r-- b/a ", "-rwxr-xr-x b/c/tool a program",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestZip(t *testing.T) {
	t.Parallel()
	raw := packed(t, Zip, commitTime(), someFiles())
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range archive.File {
		content, err := fs.ReadFile(archive, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Mode().String()+" "+f.Name+" "+string(content))
	}
	want := []string{"-rw-r--r-- LICENSE free", "-rw-r--r-- b/a ", "-rwxr-xr-x b/c/tool a program"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files []File
		want  string
	}{
		"twice":        {[]File{{Name: "a"}, {Name: "b"}, {Name: "a"}}, "a is to be packed twice"},
		"up and away":  {[]File{{Name: "../a"}}, "no path of an archive"},
		"from the top": {[]File{{Name: "/a"}}, "no path of an archive"},
		"nothing":      {[]File{{Name: ""}}, "no path of an archive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pack := range []packer{TarGz, Zip} {
				if err := pack(io.Discard, commitTime(), tc.files); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			}
		})
	}
}

package image

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/reprieve-dev/reprieve/hack/release/internal/archive"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// user is the user and group of the program. They are numbers, because a kubelet cannot determine
// from a user name whether the user is root.
const user = "65532:65532"

// These are the keys of the image's labels and annotations.
const (
	keyTitle    = "org.opencontainers.image.title"
	keyAbout    = "org.opencontainers.image.description"
	keyVersion  = "org.opencontainers.image.version"
	keyRevision = "org.opencontainers.image.revision"
	keyCreated  = "org.opencontainers.image.created"
	keySource   = "org.opencontainers.image.source"
	keyURL      = "org.opencontainers.image.url"
	keyDocs     = "org.opencontainers.image.documentation"
	keyLicenses = "org.opencontainers.image.licenses"
	keyVendor   = "org.opencontainers.image.vendor"
	// keyName is the key of the annotation with the name of an index in the layout.
	keyName = "org.opencontainers.image.ref.name"
)

// Content has the files of the image for one platform.
type Content struct {
	Platform product.Platform
	// Program is the executable file that the image runs.
	Program []byte
	// License is the text of Reprieve's licence. ThirdParty has the licences of the linked modules.
	License, ThirdParty []byte
}

// Build makes an image for each platform, and returns the index of the images.
func Build(r *product.Release, p *product.Product, contents []Content) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, c := range contents {
		image, err := single(r, p, c)
		if err != nil {
			return nil, fmt.Errorf("image of %s for %s: %w", p.Name, c.Platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: c.Platform.OS, Architecture: c.Platform.Arch}},
		})
	}
	annotated, ok := mutate.Annotations(index, labels(r, p)).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("index of %s: it is none any more", p.Name)
	}
	return annotated, nil
}

func single(r *product.Release, p *product.Product, c Content) (v1.Image, error) {
	config := &v1.ConfigFile{
		Created:      v1.Time{Time: r.Date.UTC()},
		OS:           c.Platform.OS,
		Architecture: c.Platform.Arch,
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{"/" + p.Name},
			WorkingDir: "/",
			Labels:     labels(r, p),
		},
	}
	if p.Port != 0 {
		config.Config.ExposedPorts = map[string]struct{}{strconv.Itoa(p.Port) + "/tcp": {}}
	}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	// The licences have their own layer below the program, because they change less often than the
	// program.
	for _, l := range []struct {
		what  string
		files []archive.File
	}{
		{"licences", []archive.File{
			{Name: "licenses/LICENSE", Mode: 0o644, Content: c.License},
			{Name: "licenses/THIRD_PARTY_LICENSES", Mode: 0o644, Content: c.ThirdParty},
		}},
		{"program", []archive.File{{Name: p.Name, Mode: 0o755, Content: c.Program}}},
	} {
		layer, err := layerOf(r.Date, l.files)
		if err != nil {
			return nil, fmt.Errorf("layer of the %s: %w", l.what, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: r.Date.UTC()}, CreatedBy: "hack/release: " + l.what},
		})
		if err != nil {
			return nil, fmt.Errorf("add the layer of the %s: %w", l.what, err)
		}
	}
	return image, nil
}

func layerOf(when time.Time, files []archive.File) (v1.Layer, error) {
	var packed bytes.Buffer
	if err := archive.TarGz(&packed, when, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// labels returns the labels of an image. They are also the annotations of the index.
func labels(r *product.Release, p *product.Product) map[string]string {
	return map[string]string{
		keyTitle:    p.Name,
		keyAbout:    "Reprieve: " + p.Title,
		keyVersion:  r.Version,
		keyRevision: r.Commit,
		keyCreated:  r.Date.UTC().Format(time.RFC3339),
		keySource:   product.Repository,
		keyURL:      product.Repository,
		keyDocs:     r.Page("README.md"),
		keyLicenses: "Apache-2.0",
		keyVendor:   "Reprieve",
	}
}

// Write creates an OCI layout in dir with the index and its images. It returns the digest of the
// index.
func Write(dir string, r *product.Release, p *product.Product, index v1.ImageIndex) (string, error) {
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", fmt.Errorf("begin the layout of %s: %w", p.Name, err)
	}
	if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{keyName: r.Image(p.Name)})); err != nil {
		return "", fmt.Errorf("write the image %s: %w", p.Name, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of the image %s: %w", p.Name, err)
	}
	return digest.String(), nil
}

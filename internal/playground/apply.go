package playground

import (
	"context"
	"io/fs"
)

// Apply applies every object in the .yaml files of fsys, in the order of the files' paths, like
// kubectl apply --server-side. It applies CustomResourceDefinitions first and waits until they are
// served. Namespaced objects without a namespace get the namespace "default".
func (p *Playground) Apply(ctx context.Context, fsys fs.FS) error {
	_, err := p.applyManifests(ctx, fsys)
	return err
}

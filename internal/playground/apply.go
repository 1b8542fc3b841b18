package playground

import (
	"context"
	"io/fs"
)

// Apply applies every object in the .yaml files of fsys, in the order of the files' paths, as kubectl apply
// --server-side does; CustomResourceDefinitions go first and are waited for. Objects without a namespace go to
// "default".
func (p *Playground) Apply(ctx context.Context, fsys fs.FS) error {
	_, err := p.applyManifests(ctx, fsys)
	return err
}

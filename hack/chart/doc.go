// Command chart writes what the Helm chart has from elsewhere: charts/reprieve/files, the objects
// of deploy/ that the templates take as they are, charts/reprieve/README.md, from the comments of
// values.yaml, and in values.schema.json what the arguments of a profile are.
//
// A chart cannot read what is outside of it, so it needs copies. That they are copies, `make
// verify` checks; that what is rendered from them is what deploy/ installs, test/chart does.
package main

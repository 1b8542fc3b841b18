// Command chart writes the generated parts of the Helm chart. charts/reprieve/files has the objects
// of deploy/ that the templates include unchanged. charts/reprieve/README.md comes from the
// comments of values.yaml. values.schema.json gets the schema of the arguments of a profile.
//
// A chart cannot read files outside its folder, so it needs copies. `make verify` checks that they
// are copies. test/chart checks that the rendered objects are the objects of deploy/.
package main

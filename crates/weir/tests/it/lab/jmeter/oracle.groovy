// Runs JMeter plans one after the other, each as `jmeter -n` does.
//
// A line of the input is a plan, its results file and properties, with tabs between them; a property that
// starts with `-D` is one of the system. The answer is a line: `done`, or what went wrong. The plans are in the current folder, which is removed at the end.
import org.apache.jmeter.JMeter
import org.apache.jmeter.control.ReplaceableController
import org.apache.jmeter.engine.StandardJMeterEngine
import org.apache.jmeter.gui.tree.JMeterTreeModel
import org.apache.jmeter.reporters.ResultCollector
import org.apache.jmeter.save.SaveService
import org.apache.jmeter.services.FileServer
import org.apache.jmeter.util.JMeterUtils
import org.apache.jmeter.util.SSLManager
import org.apache.jorphan.collections.SearchByClass

def answers = System.out
// What plans print is no answer.
System.out = System.err
def home = args[0]
System.setProperty('JMeter.NonGui', 'true')
new File(home, 'bin/system.properties').withInputStream { System.properties.load(it) }
JMeterUtils.JMeterHome = home
JMeterUtils.loadJMeterProperties("$home/bin/jmeter.properties")
JMeterUtils.initLocale()
def properties = JMeterUtils.JMeterProperties
properties['jmeter.save.saveservice.subresults'] = 'false'
def initial = new Properties()
initial.putAll(properties)

/** Functions keep positions in files for the life of a process. */
def forgetFiles = {
    ['FileWrapper', 'XPathWrapper'].each {
        def known = Class.forName("org.apache.jmeter.functions.$it").getDeclaredField('fileContainers')
        known.accessible = true
        known.get(null).clear()
    }
}

def run = { String plan, String results ->
    def file = new File(plan)
    FileServer.fileServer.closeFiles()
    FileServer.fileServer.baseForScript = file
    def tree = SaveService.loadTree(file)
    def model = new JMeterTreeModel(new Object())
    model.addSubTree(tree, model.root)
    def replaceable = new SearchByClass<ReplaceableController>(ReplaceableController)
    tree.traverse(replaceable)
    replaceable.searchResults.each { it.resolveReplacementSubTree(model.root) }
    def executed = JMeter.convertSubTree(tree, true)
    def collector = new ResultCollector(null)
    collector.filename = results
    executed.add(executed.getArray()[0], collector)
    def engine = new StandardJMeterEngine()
    engine.configure(executed)
    engine.run()
}

System.in.eachLine { line ->
    def parts = line.split('\t', -1) as List
    properties.clear()
    properties.putAll(initial)
    def system = []
    parts.drop(2).each {
        def (name, value) = it.split('=', 2)
        if (name.startsWith('-D')) {
            system << name.substring(2)
            System.setProperty(system.last(), value)
        } else {
            properties.setProperty(name, value)
        }
    }
    // It has the keystore of the last plan.
    SSLManager.reset()
    def answer = 'done'
    try {
        forgetFiles()
        run(parts[0], parts[1])
    } catch (Throwable error) {
        answer = "failed: $error".replaceAll('\\s+', ' ')
    }
    system.each { System.clearProperty(it) }
    answers.println(answer)
    answers.flush()
}
new File('.').canonicalFile.deleteDir()
System.exit(0)
